# What each function is told, in the terms of shared/bootstrap/src/config.rs. A setting that is null
# is left out: the function's own default holds.

locals {
  agent_settings = {
    for name, agent in var.agents : name => {
      for setting, value in {
        base_url        = agent.base_url
        lambda          = agent.lambda
        sqs             = agent.sqs
        sns             = agent.sns
        call_timeout    = agent.call_timeout
        concurrency     = agent.concurrency
        rate_per_second = agent.rate_per_second
        auth            = local.agent_auth[name]
        tls             = local.agent_tls[name]
        # A map holds texts only: what reads as a number becomes one again.
        breaker = agent.breaker == null ? null : { for name, value in agent.breaker : name => try(jsondecode(value), value) }
        headers = agent.headers
      } : setting => value if value != null
    }
  }
  # Settings that are null are left out, because a function takes a null for a setting that is given.
  agent_auth = {
    for name, agent in var.agents : name => agent.auth == null ? null : merge(
      { for way, settings in agent.auth : way => settings if settings != null && way != "oauth2" && way != "sigv4" },
      { for oauth2 in agent.auth.oauth2[*] : "oauth2" => { for setting, value in oauth2 : setting => value if value != null } },
      { for sigv4 in agent.auth.sigv4[*] : "sigv4" => { for setting, value in sigv4 : setting => value if value != null } },
    )
  }
  agent_tls = {
    for name, agent in var.agents : name => agent.tls == null ? null : { for text, reference in agent.tls : text => reference if reference != null }
  }
  # The SCRAM mechanism goes where librdkafka's other settings go.
  kafka_settings = merge(
    var.kafka.auth == "scram" ? { "sasl.mechanisms" = "SCRAM-SHA-${var.kafka.scram_mechanism}" } : {},
    var.kafka.settings,
  )

  common_environment = {
    TRIAD_BROKERS           = var.kafka.brokers
    TRIAD_KAFKA_AUTH        = var.kafka.auth
    TRIAD_KAFKA_SECRET      = var.kafka.secret_arn
    TRIAD_KAFKA_CA_SECRET   = var.kafka.ca_secret_arn
    TRIAD_KAFKA_SETTINGS    = length(local.kafka_settings) == 0 ? null : jsonencode(local.kafka_settings)
    TRIAD_PREFIX            = var.name_prefix
    TRIAD_REPLY_TOPICS      = length(var.reply_topics) == 0 ? null : join(",", var.reply_topics)
    TRIAD_BATCH_RESPONSES   = local.provisioned ? "partial" : "whole"
    TRIAD_SKEW              = var.timing.skew
    TRIAD_ANNOUNCE_WITHIN   = var.timing.announce_within
    TRIAD_QUEUE_WITHIN      = var.timing.queue_within
    TRIAD_RETENTION         = var.timing.retention
    TRIAD_DETAILS_RETENTION = var.timing.details_retention
    TRIAD_LOG               = var.log_filter
    TRIAD_METRICS_NAMESPACE = local.metric_namespace
  }

  # Submission sets orders beyond them aside; the Scheduler and the Supervisor let them in.
  workflow_caps = {
    TRIAD_MAX_IN_FLIGHT_PER_WORKFLOW = (
      length(var.admission.max_in_flight_per_workflow) == 0 ? null : jsonencode(var.admission.max_in_flight_per_workflow)
    )
  }

  own_environment = merge(
    {
      submission = merge(local.workflow_caps, {
        TRIAD_ADMISSION     = var.admission.when_full
        TRIAD_MAX_IN_FLIGHT = var.admission.max_in_flight == null ? null : tostring(var.admission.max_in_flight)
        TRIAD_BACKLOG_WAIT  = var.admission.backlog_wait
      })
      scheduler  = local.workflow_caps
      supervisor = local.workflow_caps
      alerts = {
        TRIAD_ALERTS_SNS_TOPIC = local.alerts_topic_arn
        TRIAD_CONSOLE_URL      = var.console_url
      }
      # An environment holds 4 KB.
      setup = { TRIAD_SETUP = base64gzip(jsonencode(local.parts)) }
    },
    {
      for console in var.console[*] : "console" => {
        TRIAD_CONSOLE_TOKENS    = join("\n", console.tokens)
        TRIAD_CONSOLE_READ_ONLY = tostring(console.read_only)
        TRIAD_CONSOLE_HIDDEN    = length(console.hidden) == 0 ? null : join(",", console.hidden)
        TRIAD_CONSOLE_NAME      = local.name
      }
    },
    # An agent is told of itself alone: no function holds another one's headers.
    {
      for name in keys(var.agents) : "agent-${name}" => {
        TRIAD_AGENTS = jsonencode({ (name) = local.agent_settings[name] })
        TRIAD_AGENT_CONCURRENCY = (
          var.agents[name].concurrency == null ? null : tostring(var.agents[name].concurrency)
        )
      }
    },
  )

  environments = {
    for function in keys(local.functions) : function => merge(
      {
        for name, value in merge(var.extra_environment, local.common_environment, local.own_environment[function]) :
        name => value if value != null
      },
      # It is not known before it is made, so nothing is asked of it.
      function == "console" ? local.console_key : {},
    )
  }
}
