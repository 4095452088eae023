# Topics: who reads and who writes which. The names are those of shared/kernel/core/src/topics.rs.
#
# No resource is in this file, so that tests/inputs can take it without a provider.

locals {
  # The function that reads a topic; both lanes of a topic end in the same one.
  read_by = merge(
    {
      "orders"         = "submission"
      "orders.high"    = "submission"
      "scheduler"      = "scheduler"
      "scheduler.high" = "scheduler"
      "alerts"         = "alerts"
    },
    { for agent in keys(var.agents) : "agent.${agent}" => "agent-${agent}" },
    { for agent in keys(var.agents) : "agent.${agent}.high" => "agent-${agent}" },
  )
  read_topics = keys(local.read_by)

  # Topics that each function writes to.
  status_topics    = concat(["status"], var.reply_topics)
  scheduler_topics = ["scheduler", "scheduler.high"]
  agent_topics     = flatten([for agent in keys(var.agents) : ["agent.${agent}", "agent.${agent}.high"]])
  written_topics = {
    submission = concat(local.scheduler_topics, local.status_topics, ["alerts", "dead-letter"])
    scheduler  = concat(local.scheduler_topics, local.agent_topics, local.status_topics, ["alerts", "dead-letter"])
    supervisor = concat(local.scheduler_topics, local.status_topics, ["alerts"])
    alerts     = ["alerts", "dead-letter"]
    agent      = concat(local.scheduler_topics, ["alerts", "dead-letter"])
    # Operators' acts wake the Scheduler, tell statuses, and alert of a downstream that is paused; a replayed dead
    # letter goes to where it came from.
    console = local.console_acts ? distinct(concat(local.read_topics, local.status_topics, ["dead-letter"])) : []
  }

  # Topics that a function reads by itself, to their present end and in no group.
  looked_at_topics = {
    console = ["alerts", "dead-letter"]
  }

  # Every topic that must exist.
  all_topics = distinct(concat(local.read_topics, local.status_topics, ["alerts", "dead-letter"]))
}
