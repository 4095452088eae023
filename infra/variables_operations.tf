# What operators see and set: logs, alerts, alarms, the console, the schedule, the workflows.

variable "log_retention_days" {
  description = "How long the functions' logs are kept."
  type        = number
  default     = 365
  nullable    = false
  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days: CloudWatch knows 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 and 3653 days."
  }
}

variable "failure_bucket_arn" {
  description = "Bucket for records that Lambda gave up. Null: the module makes one. One of your own is encrypted by S3 or with the installation's key, as the roles may use no other, and has a notification that you put on it."
  type        = string
  default     = null
  validation {
    condition     = var.failure_bucket_arn == null || can(regex("^arn:[a-z-]+:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.failure_bucket_arn))
    error_message = "failure_bucket_arn: give the ARN of a bucket (arn:aws:s3:::NAME)."
  }
}

variable "failed_records_days" {
  description = "How long given-up records are kept in the module's bucket."
  type        = number
  default     = 90
  nullable    = false
  validation {
    condition     = var.failed_records_days >= 7 && floor(var.failed_records_days) == var.failed_records_days
    error_message = "failed_records_days: whole days, 7 or more; they are replayed by hand."
  }
}

variable "alert_subscriptions" {
  description = "Who gets alerts and alarms: protocol (email, https, sqs, lambda …) and endpoint, by any name."
  type = map(object({
    protocol = string
    endpoint = string
  }))
  default  = {}
  nullable = false
  validation {
    condition     = alltrue([for s in values(var.alert_subscriptions) : contains(["email", "email-json", "https", "sqs", "lambda", "sms", "firehose", "application"], s.protocol)])
    error_message = "alert_subscriptions: protocol is email, email-json, https, sqs, lambda, sms, firehose or application; plain http is not encrypted and not offered."
  }
}

variable "console_url" {
  description = "Where browsers reach the operators' pages (triad console), such as https://triad.example/console/: each alert then has a link to the page that shows it. Null: alerts have no links."
  type        = string
  default     = null
  validation {
    condition     = var.console_url == null || can(regex("^https?://[A-Za-z0-9._:\\[\\]-]+(/|/console/?)?$", var.console_url))
    error_message = "console_url: http or https, a host and perhaps a port, and no other path than /console/."
  }
}

variable "alarms" {
  description = <<-EOT
    Thresholds of the alarms; infra/README.md says what each alarm is for.
    enabled: false makes none.
    lag_records: records that a function has to read, for five minutes (of the topic alerts: 1).
    record_seconds: age of a record when work on it begins.
    failed_records: records that a function answers as failed, in each of three times five minutes (of the topic alerts: 1).
    errors: failed invocations of a function in five minutes (of the function alerts 1, of the Supervisor at most 3). throttles: throttled ones.
    functions: other thresholds of single functions, by submission, scheduler, supervisor, alerts, console and agent-NAME.
    unread_minutes: minutes without a poll of a topic. supervisor_silent_minutes: minutes without a whole sweep.
    overdue_seconds: how long an order may be overdue, for five minutes.
    throttled_requests: throttled reads and writes of a table in a minute, in three of five.
    polling_errors: alarms on the errors of mappings, such as that Kafka is not reached, which `setup` makes Lambda report.
    actions: ARNs that are told besides the alerts topic, so that a fault of that topic is heard of.
  EOT
  type = object({
    enabled                   = optional(bool, true)
    lag_records               = optional(number, 10000)
    record_seconds            = optional(number, 300)
    failed_records            = optional(number, 10)
    errors                    = optional(number, 5)
    throttles                 = optional(number, 1)
    unread_minutes            = optional(number, 10)
    supervisor_silent_minutes = optional(number, 5)
    overdue_seconds           = optional(number, 300)
    throttled_requests        = optional(number, 1)
    polling_errors            = optional(bool, true)
    actions                   = optional(list(string), [])
    functions = optional(map(object({
      lag_records    = optional(number)
      failed_records = optional(number)
      errors         = optional(number)
      throttles      = optional(number)
    })), {})
  })
  default  = {}
  nullable = false
  validation {
    condition = alltrue([
      for threshold in concat(
        [var.alarms.lag_records, var.alarms.record_seconds, var.alarms.failed_records, var.alarms.errors, var.alarms.throttles, var.alarms.overdue_seconds, var.alarms.throttled_requests],
        flatten([for of in values(var.alarms.functions) : [of.lag_records, of.failed_records, of.errors, of.throttles]]),
      ) : threshold == null || try(threshold >= 1, false)
    ])
    error_message = "alarms: thresholds are 1 or more."
  }
  validation {
    condition     = var.alarms.record_seconds <= 600
    error_message = "alarms.record_seconds: at most 600; the functions report what is older than 725 s as that."
  }
  validation {
    condition     = alltrue([for minutes in [var.alarms.unread_minutes, var.alarms.supervisor_silent_minutes] : minutes >= 2 && minutes <= 60 && floor(minutes) == minutes])
    error_message = "alarms.unread_minutes, alarms.supervisor_silent_minutes: whole minutes from 2 to 60; the Supervisor runs every minute."
  }
  validation {
    condition     = length(setsubtract(keys(var.alarms.functions), concat(["submission", "scheduler", "supervisor", "alerts", "console"], [for agent in keys(var.agents) : "agent-${agent}"]))) == 0
    error_message = "alarms.functions: every key is submission, scheduler, supervisor, alerts, console or agent-NAME of an agent."
  }
  validation {
    condition = !var.alarms.enabled || !startswith(var.supervisor_schedule, "rate") || try(
      tonumber(regex("^rate\\(([0-9]+) minutes?\\)$", var.supervisor_schedule)[0]) < var.alarms.supervisor_silent_minutes, false
    )
    error_message = "alarms.supervisor_silent_minutes: must be more than the minutes between two sweeps (supervisor_schedule), or the alarm rings between them."
  }
}

variable "dashboard" {
  description = "False makes no dashboard in CloudWatch."
  type        = bool
  default     = true
  nullable    = false
}

variable "console" {
  description = <<-EOT
    The operators' console, API and /mcp behind a URL that everybody can reach and nobody uses without a token.
    tokens: who is let in: lines as `triad token NAME --role operate` prints them on standard output. They hold no secret.
    read_only: nobody acts, and the function's role may write nothing. hidden: fields of payloads that are not shown.
    reserved_concurrency: requests at once, taken from the account's pool; null: none is reserved, and nothing bounds them.
    Null: there is no console.
  EOT
  type = object({
    tokens               = list(string)
    read_only            = optional(bool, false)
    hidden               = optional(list(string), [])
    memory_mb            = optional(number, 512)
    timeout_seconds      = optional(number, 30)
    reserved_concurrency = optional(number)
  })
  default = null
  validation {
    condition = var.console == null || try(length(var.console.tokens) > 0 && alltrue([
      for line in var.console.tokens : can(regex("^[A-Za-z0-9_.@-]{1,64} +[0-9a-fA-F]{64} +(submit|read|operate)(,(submit|read|operate))*$", line))
    ]), false)
    error_message = "console.tokens: give a line of `triad token NAME --role operate` for each who is let in: name, SHA-256 in hex, roles."
  }
  validation {
    condition     = var.console == null || try(length(join("\n", var.console.tokens)) <= 2560, false)
    error_message = "console.tokens: at most 2560 characters in all, some 25 tokens; an environment of Lambda holds 4 KB, and the other settings are in it too."
  }
  validation {
    condition     = var.console == null || try(alltrue([for name in var.console.hidden : can(regex("^[^,\\s][^,]*$", name))]), false)
    error_message = "console.hidden: names of fields, without commas."
  }
  validation {
    condition = var.console == null || try(
      var.console.memory_mb >= 128 && var.console.memory_mb <= 10240 &&
      var.console.timeout_seconds >= 25 && var.console.timeout_seconds <= 900, false
    )
    error_message = "console: memory_mb is 128 to 10240, timeout_seconds 25 to 900; an act goes on for up to 20 s."
  }
  validation {
    condition     = try(var.console.reserved_concurrency, null) == null || try(var.console.reserved_concurrency >= 1, false)
    error_message = "console.reserved_concurrency: 1 or more; leave it out to reserve none."
  }
}

variable "supervisor_schedule" {
  description = "How often the Supervisor sweeps, as an EventBridge Scheduler expression."
  type        = string
  default     = "rate(1 minute)"
  nullable    = false
  validation {
    condition     = can(regex("^(rate|cron)\\(.+\\)$", var.supervisor_schedule))
    error_message = "supervisor_schedule: write rate(1 minute) or cron(…)."
  }
}

variable "supervisor_enabled" {
  description = "False stops the Supervisor's schedule, for planned stops alone; the alarm supervisor-silent rings meanwhile."
  type        = bool
  default     = true
  nullable    = false
}

variable "workflows" {
  description = <<-EOT
    Workflow files that are published on apply, by the function `setup`.
    directory: where they are (*.yaml, *.yml), with the descriptions of services in agents/.
    Null: none is published.
  EOT
  type = object({
    directory = string
  })
  default = null
  validation {
    condition     = var.workflows == null || try(length(fileset(var.workflows.directory, "*.{yaml,yml}")) > 0, false)
    error_message = "workflows.directory: there is no .yaml or .yml file in it."
  }
}

locals {
  # Whether there is a console on which operators act.
  console_acts = try(!var.console.read_only, false)
}
