# What is run on the machine that applies, with stand-ins for `aws` and `triad` that note how they
# were called. Kept apart because it applies: run it by tests/infra.sh only, which puts the
# stand-ins before the real commands and compares the notes with commands.expected.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  packages = {
    submission = "./tests/fixtures/packages/submission.zip"
    scheduler  = "./tests/fixtures/packages/scheduler.zip"
    agent      = "./tests/fixtures/packages/agent.zip"
    supervisor = "./tests/fixtures/packages/supervisor.zip"
    alerts     = "./tests/fixtures/packages/alerts.zip"
    console    = "./tests/fixtures/packages/console.zip"
  }
  kafka = {
    brokers         = "b-1.example.internal:9098"
    msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
    auth            = "msk-iam"
  }
  vpc       = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }
  agents    = { payment = { base_url = "https://pay.example/v1" } }
  mapping   = { pollers = 2, poller_group = "shop" }
  console   = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"] }
  workflows = { directory = "./tests/fixtures/workflows" }
}

run "first_apply" {
  command = apply
  assert {
    condition     = length(terraform_data.poller_group) == 7
    error_message = "one call of aws a mapping"
  }
  assert {
    condition     = can(regex("^[0-9a-f-]{72}$", nonsensitive(aws_lambda_function.this["console"].environment[0].variables.TRIAD_CONSOLE_KEY)))
    error_message = "the key of the sessions is random"
  }
}

run "an_apply_without_changes_runs_nothing" {
  command = apply
  assert {
    condition     = length(terraform_data.workflows) == 1
    error_message = "still there"
  }
}

# A key that is to be made anew is not known before.
run "a_plan_leaves_the_key_of_the_sessions_alone" {
  command = plan
  assert {
    condition     = length(nonsensitive(terraform_data.console_key[0].output)) == 72
    error_message = "every apply would end all sessions"
  }
}
