# What the functions are made of, what they are told, and how large they are.

variable "packages" {
  description = "Paths of the functions' zips, each with one binary named bootstrap, built for `architecture`."
  type = object({
    submission = string
    scheduler  = string
    agent      = string
    supervisor = string
    alerts     = string
    setup      = string
    console    = optional(string)
  })
  nullable = false
  validation {
    condition     = alltrue([for path in values(var.packages) : path == null || try(fileexists(path), false)])
    error_message = "packages: there is no file at ${join(", ", [for path in values(var.packages) : path if path != null && !try(fileexists(path), true)])}; build the functions first."
  }
  validation {
    condition     = var.console == null || var.packages.console != null
    error_message = "packages.console: is missing; the console is a function of its own."
  }
}

variable "architecture" {
  description = "Processor of the functions: arm64 or x86_64. The zips must be built for it."
  type        = string
  default     = "arm64"
  nullable    = false
  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "architecture: use arm64 or x86_64."
  }
}

variable "functions" {
  description = <<-EOT
    Size of the functions; agents have their own in `agents`.
    reserved_concurrency: instances taken from the account's pool for this function alone, and its most; null: none.
    timeout_seconds: up to 840, the most that a Kafka mapping allows; the Supervisor's up to 60.
  EOT
  type = object({
    submission = optional(object({
      memory_mb            = optional(number, 256)
      timeout_seconds      = optional(number, 60)
      reserved_concurrency = optional(number)
    }), {})
    scheduler = optional(object({
      memory_mb            = optional(number, 256)
      timeout_seconds      = optional(number, 60)
      reserved_concurrency = optional(number)
    }), {})
    supervisor = optional(object({
      memory_mb            = optional(number, 256)
      timeout_seconds      = optional(number, 50)
      reserved_concurrency = optional(number)
    }), {})
    alerts = optional(object({
      memory_mb            = optional(number, 128)
      timeout_seconds      = optional(number, 30)
      reserved_concurrency = optional(number)
    }), {})
  })
  default  = {}
  nullable = false
  validation {
    condition = alltrue([
      for size in [var.functions.submission, var.functions.scheduler, var.functions.supervisor, var.functions.alerts] :
      size.memory_mb >= 128 && size.memory_mb <= 10240
    ])
    error_message = "functions: memory_mb is 128 to 10240."
  }
  validation {
    condition = alltrue([
      for size in [var.functions.submission, var.functions.scheduler, var.functions.alerts] :
      size.timeout_seconds >= 2 && size.timeout_seconds <= 840
    ])
    error_message = "functions: timeout_seconds is 2 to 840; a Kafka mapping refuses functions with more than 14 minutes."
  }
  validation {
    condition     = var.functions.supervisor.timeout_seconds >= 2 && var.functions.supervisor.timeout_seconds <= 60
    error_message = "functions.supervisor: timeout_seconds is 2 to 60; it is started anew every minute."
  }
}

variable "agents" {
  description = <<-EOT
    The agents by name, one function each; workflows use the same names. Each has exactly one of base_url, lambda, sqs and sns:
    base_url: URL of an HTTP service; actions are path segments below it.
    lambda: name or ARN of a function, with :ALIAS if needed. sqs: URL of a queue. sns: ARN of a topic. The agent's role may
    invoke that function, or send to that queue or topic, and no other. kms_key_arn: customer key of the queue or topic.
    call_timeout: longest single call, such as "5s".
    headers: headers of every call that are no secrets; one that is goes into auth.
    auth: the agent's credentials: one of bearer, basic, header, oauth2 and sigv4. tls: certificate, key, ca. Both are described
    in docs/reference/agents.md. Their secrets are references: { secret = ARN, field = … } in Secrets Manager, which the
    agent's role may then read, { env = NAME } or { file = PATH }. So no secret is in the state.
    With sigv4 the API's own resource policy must allow the agent's role (output role_arns).
    secret_kms_key_arns: customer keys that these secrets are encrypted with; none for the key aws/secretsmanager.
    concurrency: calls at once in one instance. rate_per_second: of all instances together.
    breaker: window, minimum, failure_percent, probes (whole numbers), open, max_open, probe_within (durations).
    memory_mb, timeout_seconds, reserved_concurrency: as in `functions`.
  EOT
  type = map(object({
    base_url     = optional(string)
    lambda       = optional(string)
    sqs          = optional(string)
    sns          = optional(string)
    kms_key_arn  = optional(string)
    call_timeout = optional(string)
    headers      = optional(map(string))
    auth = optional(object({
      bearer = optional(map(string))
      basic = optional(object({
        user     = string
        password = map(string)
      }))
      header = optional(object({
        name  = string
        value = map(string)
      }))
      oauth2 = optional(object({
        token_url     = string
        client_id     = string
        client_secret = map(string)
        scope         = optional(string)
        audience      = optional(string)
      }))
      sigv4 = optional(object({
        service = string
        region  = optional(string)
      }))
    }))
    tls = optional(object({
      certificate = optional(map(string))
      key         = optional(map(string))
      ca          = optional(map(string))
    }))
    secret_kms_key_arns  = optional(list(string), [])
    concurrency          = optional(number)
    rate_per_second      = optional(number)
    breaker              = optional(map(string))
    memory_mb            = optional(number, 256)
    timeout_seconds      = optional(number, 120)
    reserved_concurrency = optional(number)
  }))
  nullable = false
  validation {
    condition     = length(var.agents) > 0
    error_message = "agents: name at least one; without agents no step can be done."
  }
  validation {
    condition     = alltrue([for name in keys(var.agents) : can(regex("^[a-z][a-z0-9_-]{0,31}$", name))])
    error_message = "agents: a name is 1 to 32 lower-case letters, digits, '-' and '_', beginning with a letter (it becomes part of a function's name)."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) : length([for of in [agent.base_url, agent.lambda, agent.sqs, agent.sns] : of if of != null]) == 1
    ])
    error_message = "agents: each has exactly one of base_url, lambda, sqs and sns."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) : agent.headers == null && agent.auth == null && agent.tls == null if agent.base_url == null
    ])
    error_message = "agents: headers, auth and tls are only for an agent with base_url; calls of lambda, sqs and sns are signed with the role of the agent's function."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) :
      can(regex("^(arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:)?[a-zA-Z0-9_-]{1,64}(:([a-zA-Z0-9_-]{1,128}|[$]LATEST))?$", coalesce(agent.lambda, "name"))) &&
      can(regex("^https://sqs[.][a-z0-9-]+[.]amazonaws[.]com([.]cn)?/[0-9]{12}/[a-zA-Z0-9_-]{1,80}([.]fifo)?$", coalesce(agent.sqs, "https://sqs.eu-west-1.amazonaws.com/111122223333/q"))) &&
      can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[a-zA-Z0-9_-]{1,256}([.]fifo)?$", coalesce(agent.sns, "arn:aws:sns:eu-west-1:111122223333:t")))
    ])
    error_message = "agents: lambda is a function's name or ARN, with :ALIAS if needed; sqs is a queue's URL (https://sqs.REGION.amazonaws.com/ACCOUNT/NAME); sns is a topic's ARN."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) : (agent.sqs != null || agent.sns != null) && can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", agent.kms_key_arn)) if agent.kms_key_arn != null
    ])
    error_message = "agents: kms_key_arn is the ARN of the key (arn:aws:kms:REGION:ACCOUNT:key/ID, not an alias) of an agent's queue or topic."
  }
  validation {
    condition     = alltrue([for agent in values(var.agents) : can(regex("^https?://[^/?#@ ]+(/[^?# ]*)?$", coalesce(agent.base_url, "https://h")))])
    error_message = "agents: base_url is an http or https address without user, query and fragment."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) : length([for way in values(agent.auth) : way if way != null]) == 1 if agent.auth != null
    ])
    error_message = "agents: auth is exactly one of bearer, basic, header, oauth2 and sigv4."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) :
      (agent.tls.certificate == null) == (agent.tls.key == null) && (agent.tls.certificate != null || agent.tls.ca != null)
      if agent.tls != null
    ])
    error_message = "agents: tls has a certificate and its key, or a ca, or all three."
  }
  validation {
    condition = alltrue(flatten([
      for agent in values(var.agents) : [
        for reference in [
          try(agent.auth.bearer, null), try(agent.auth.basic.password, null), try(agent.auth.header.value, null),
          try(agent.auth.oauth2.client_secret, null), try(agent.tls.certificate, null), try(agent.tls.key, null), try(agent.tls.ca, null),
          ] : contains(["env", "file", "secret", "field secret"], join(" ", keys(reference))) && can(regex(
            "^(|arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6})$", lookup(reference, "secret", "")
        )) if reference != null
      ]
    ]))
    error_message = "agents: each secret of auth or tls is a reference and not the secret itself: { secret = ARN }, with field if needed, { env = NAME } or { file = PATH }. Give the whole ARN, with the six random characters at its end: the agent's role may read exactly that secret."
  }
  validation {
    condition = alltrue(flatten([
      for agent in values(var.agents) : [
        for arn in agent.secret_kms_key_arns : can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", arn))
      ]
    ]))
    error_message = "agents: secret_kms_key_arns are ARNs of keys (arn:aws:kms:REGION:ACCOUNT:key/ID), not of aliases."
  }
  validation {
    condition     = alltrue([for agent in values(var.agents) : can(regex(local.duration, coalesce(agent.call_timeout, "1s")))])
    error_message = "agents: call_timeout is a duration such as \"800ms\", \"5s\" or \"1m\"."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) : alltrue([
        for n in [coalesce(agent.concurrency, 1), coalesce(agent.rate_per_second, 1)] : n >= 1 && n <= 10000 && floor(n) == n
      ])
    ])
    error_message = "agents: concurrency and rate_per_second are whole numbers from 1 to 10000; leave out what is not to be limited."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) : alltrue([
        for name, value in agent.breaker == null ? tomap({}) : agent.breaker :
        contains(["window", "minimum", "failure_percent", "probes"], name) ? can(regex("^[0-9]{1,9}$", value)) : (
          contains(["open", "max_open", "probe_within"], name) && can(regex(local.duration, value))
        )
      ])
    ])
    error_message = "agents: breaker has window, minimum, failure_percent and probes, which are whole numbers, and open, max_open and probe_within, which are durations such as \"30s\"."
  }
  validation {
    condition = alltrue([
      for agent in values(var.agents) :
      agent.memory_mb >= 128 && agent.memory_mb <= 10240 && agent.timeout_seconds >= 2 && agent.timeout_seconds <= 840
    ])
    error_message = "agents: memory_mb is 128 to 10240, timeout_seconds 2 to 840; a Kafka mapping refuses functions with more than 14 minutes."
  }
}

variable "admission" {
  description = <<-EOT
    How many orders may be under way, and what happens to more.
    max_in_flight: of all workflows together; null: no limit.
    max_in_flight_per_workflow: of single workflows, by name.
    when_full: slow (orders wait in their topic) or reject (they are refused with a status).
    backlog_wait: with reject, how long an order may wait in its topic before, such as "10m"; null: not at all.
  EOT
  type = object({
    max_in_flight              = optional(number)
    max_in_flight_per_workflow = optional(map(number), {})
    when_full                  = optional(string, "slow")
    backlog_wait               = optional(string)
  })
  default  = {}
  nullable = false
  validation {
    condition     = contains(["slow", "reject"], var.admission.when_full)
    error_message = "admission.when_full: use slow or reject."
  }
  validation {
    condition = alltrue([
      for n in concat([coalesce(var.admission.max_in_flight, 1)], values(var.admission.max_in_flight_per_workflow)) :
      n >= 1 && floor(n) == n
    ])
    error_message = "admission: limits are whole numbers from 1 on; leave out what is not to be limited."
  }
  validation {
    condition     = alltrue([for name in keys(var.admission.max_in_flight_per_workflow) : can(regex("^[a-z][a-z0-9_-]{0,63}$", name))])
    error_message = "admission.max_in_flight_per_workflow: a workflow's name is lower-case letters, digits, '-' and '_' after a letter."
  }
  validation {
    condition     = can(regex(local.duration, coalesce(var.admission.backlog_wait, "1s")))
    error_message = "admission.backlog_wait: give a duration such as \"30s\" or \"10m\"."
  }
}

variable "timing" {
  description = <<-EOT
    Spans of the handlers; null is the functions' default.
    skew: largest clock difference. announce_within: how long an order may wait for a Scheduler.
    queue_within: how long a request may wait in its agent's topic, beside the step's attempt timeout.
    retention: how long finished process records are kept; orders in Error and CompensationFailed are kept until they are closed, and so long from then on.
    details_retention: how long the details of these orders are kept, counted alike; null: for ever. An order id that is submitted again once record and details are gone is a new order.
  EOT
  type = object({
    skew              = optional(string)
    announce_within   = optional(string)
    queue_within      = optional(string)
    retention         = optional(string)
    details_retention = optional(string)
  })
  default  = {}
  nullable = false
  validation {
    condition     = alltrue([for span in values(var.timing) : can(regex(local.duration, coalesce(span, "1s")))])
    error_message = "timing: give durations such as \"500ms\", \"1m\" or \"30days\"."
  }
}

variable "log_filter" {
  description = "Log filter of the functions, such as info or info,triad_runtime=debug; TRIAD_LOG. A target alone silences all others; metrics are told whatever it hides."
  type        = string
  default     = "info"
  nullable    = false
}

variable "extra_environment" {
  description = "Further environment variables of all functions."
  type        = map(string)
  default     = {}
  nullable    = false
  validation {
    condition     = length([for name in keys(var.extra_environment) : name if startswith(name, "TRIAD_")]) == 0
    error_message = "extra_environment: TRIAD_ variables have inputs of their own; set those."
  }
}

variable "tracing" {
  description = "Record sampled invocations in X-Ray."
  type        = bool
  default     = true
  nullable    = false
}

variable "code_signing_config_arn" {
  description = "Code signing configuration of the functions, where zips are signed; null: none."
  type        = string
  default     = null
}

locals {
  # The durations that the functions understand: a number with a unit, or several of them.
  duration = "^[0-9]+(ms|s|m|h|d|days)( [0-9]+(ms|s|m|h|d|days))*$"
}
