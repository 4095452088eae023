# Workflow files, published on apply.
#
# A definition is known by the hash of its canonical form, which only Triad computes; so the
# command line publishes them, on the machine that applies and with that machine's credentials.
# It checks all files before it writes any. A file that is taken away stays published: orders may
# be under way on it. They are published after functions and roles have changed, so that nobody gets
# a step for an agent whose topics it may not write, and before the topics are read.

locals {
  workflow_files = var.workflows == null ? [] : sort(tolist(fileset(var.workflows.directory, "*.{yaml,yml}")))
  # The descriptions of services are parts of the workflows beside them.
  description_files = var.workflows == null ? [] : sort(tolist(fileset(var.workflows.directory, "agents/*.{yaml,yml}")))
}

resource "terraform_data" "workflows" {
  count = var.workflows == null ? 0 : 1

  triggers_replace = {
    files  = { for file in concat(local.workflow_files, local.description_files) : file => filesha256("${var.workflows.directory}/${file}") }
    agents = keys(var.agents)
    table  = aws_dynamodb_table.workflows.id
  }

  depends_on = [aws_lambda_function.this, aws_iam_role_policy.function]

  provisioner "local-exec" {
    command = "\"$TRIAD_CLI\" publish --aws --agents \"$AGENTS\" ${join(" ", [for file in local.workflow_files : "\"$DIRECTORY\"/${file}"])}"
    environment = {
      TRIAD_CLI          = var.workflows.cli
      DIRECTORY          = var.workflows.directory
      AGENTS             = join(",", keys(var.agents))
      TRIAD_TABLE_PREFIX = var.name_prefix
      AWS_REGION         = local.region
    }
  }
}
