# The shared poller group: mappings of one VPC that share their poller capacity, instead of one
# unit each at least.
#
# The provider in use (5.100) has no argument for it, so the group is set after each mapping by the
# AWS command line on the machine that applies, with that machine's credentials. The provider
# does not see the group, and so never takes it away.

resource "terraform_data" "poller_group" {
  for_each = var.mapping.poller_group == null ? {} : local.lanes

  # An update of the pollers is an update of the same structure: set the group again after it.
  triggers_replace = {
    mapping = aws_lambda_event_source_mapping.this[each.key].uuid
    pollers = each.value.pollers
    group   = var.mapping.poller_group
  }

  provisioner "local-exec" {
    command = "aws lambda update-event-source-mapping --region \"$REGION\" --uuid \"$MAPPING\" --provisioned-poller-config \"$POLLERS\" --output text --query State"
    environment = {
      REGION    = local.region
      AWS_PAGER = ""
      MAPPING   = aws_lambda_event_source_mapping.this[each.key].uuid
      POLLERS = jsonencode({
        MinimumPollers  = each.value.pollers
        MaximumPollers  = each.value.pollers
        PollerGroupName = var.mapping.poller_group
      })
    }
  }
}
