# Topics: who reads and who writes which. The names are those of shared/kernel/core/src/topics.rs; in Kafka each begins with
# `name_prefix` (names.tf).
#
# No resource is in this file, so that tests/inputs can take it without a provider.

locals {
  # How the names of the lanes' topics end.
  lane_endings = var.mapping.high_lanes ? ["", ".high"] : [""]

  # The function that reads a topic; both lanes of a topic end in the same one.
  normal_lanes = merge(
    { "orders" = "submission", "scheduler" = "scheduler" },
    { for agent in keys(var.agents) : "agent.${agent}" => "agent-${agent}" },
  )
  both_lanes = merge(local.normal_lanes, { for topic, function in local.normal_lanes : "${topic}.high" => function })
  read_by = merge(
    var.mapping.high_lanes ? local.both_lanes : local.normal_lanes,
    var.mapping.events ? { "events" = "scheduler" } : {},
    { "alerts" = "alerts" },
  )
  read_topics = keys(local.read_by)

  # Topics that each function writes to.
  status_topics    = concat(["status"], var.reply_topics)
  scheduler_topics = [for lane in local.lane_endings : "scheduler${lane}"]
  agent_topics     = flatten([for agent in keys(var.agents) : [for lane in local.lane_endings : "agent.${agent}${lane}"]])
  written_topics = {
    submission = concat(local.scheduler_topics, local.status_topics, ["alerts", "dead-letter"])
    scheduler  = concat(local.scheduler_topics, local.agent_topics, local.status_topics, ["alerts", "dead-letter"])
    supervisor = concat(local.scheduler_topics, local.status_topics, ["alerts"])
    alerts     = ["alerts", "dead-letter"]
    agent      = concat(local.scheduler_topics, ["alerts", "dead-letter"])
    # Operators' acts wake the Scheduler, tell statuses, and alert of a downstream that is paused; a replayed dead
    # letter goes to where it came from.
    console = local.console_acts ? distinct(concat(local.read_topics, local.status_topics, ["dead-letter"])) : []
    setup   = []
  }

  # Topics that a function reads by itself, to their present end and in no group.
  looked_at_topics = {
    console = ["alerts", "dead-letter"]
  }

  # Every topic that must exist, and how long Kafka keeps its records.
  all_topics = distinct(concat(local.read_topics, local.status_topics, ["alerts", "dead-letter"]))
  topic_days = {
    for topic in local.all_topics : topic => (
      contains(["orders", "orders.high", "events"], topic) ? var.topics.retention_days.orders :
      topic == "dead-letter" ? var.topics.retention_days.dead_letter : var.topics.retention_days.others
    )
  }
}
