# Where Kafka is, how to log in to it, and how Lambda reads from it.

variable "kafka" {
  description = <<-EOT
    The brokers.
    brokers: bootstrap addresses for the functions, host:port, comma-separated.
    msk_cluster_arn: the MSK cluster; null for any other Kafka.
    msk_vpc_connection_arn: for a cluster of another account, the managed VPC connection by which this account reaches it.
    auth: none, tls, scram, mtls or msk-iam (MSK only).
    scram_mechanism: 512 or 256 (256 not on MSK).
    secret_arn: Secrets Manager secret; scram: {"username", "password"}; mtls: {"certificate", "privateKey", "privateKeyPassword"}.
    secret_kms_key_arn: key of the secret, if it is not aws/secretsmanager.
    ca_secret_arn: secret {"certificate"} with the brokers' CA, if it is a private one.
    ca_secret_kms_key_arn: key of that secret, if it is not aws/secretsmanager.
    settings: further librdkafka settings of the functions.
  EOT
  type = object({
    brokers                = string
    msk_cluster_arn        = optional(string)
    msk_vpc_connection_arn = optional(string)
    auth                   = string
    scram_mechanism        = optional(number, 512)
    secret_arn             = optional(string)
    secret_kms_key_arn     = optional(string)
    ca_secret_arn          = optional(string)
    ca_secret_kms_key_arn  = optional(string)
    settings               = optional(map(string), {})
  })
  nullable = false

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]+:[0-9]{1,5}(,[A-Za-z0-9._-]+:[0-9]{1,5})*$", var.kafka.brokers))
    error_message = "kafka.brokers: give host:port[,host:port…] without spaces."
  }
  validation {
    condition     = var.kafka.msk_cluster_arn == null || can(regex("^arn:[a-z-]+:kafka:[a-z0-9-]+:[0-9]{12}:cluster/[A-Za-z0-9_-]+/[a-z0-9-]+$", var.kafka.msk_cluster_arn))
    error_message = "kafka.msk_cluster_arn: give the ARN of a cluster (arn:aws:kafka:REGION:ACCOUNT:cluster/NAME/UUID), or leave it out for a Kafka that is not MSK."
  }
  validation {
    condition = var.kafka.msk_vpc_connection_arn == null || try(
      element(split("/", var.kafka.msk_vpc_connection_arn), 1) == split(":", var.kafka.msk_cluster_arn)[4] &&
      can(regex("^arn:[a-z-]+:kafka:[a-z0-9-]+:[0-9]{12}:vpc-connection/[0-9]{12}/[A-Za-z0-9_-]+/[a-z0-9-]+$", var.kafka.msk_vpc_connection_arn)), false
    )
    error_message = "kafka.msk_vpc_connection_arn: give the ARN of the managed VPC connection (arn:aws:kafka:REGION:ACCOUNT:vpc-connection/OWNER/NAME/UUID), and with it msk_cluster_arn, the cluster of that owner."
  }
  validation {
    condition     = var.kafka.msk_vpc_connection_arn == null || var.kafka.auth != "none"
    error_message = "kafka.auth: MSK offers VPC connections only to clients that log in or use TLS; use msk-iam, scram, mtls or tls."
  }
  validation {
    condition     = contains(["none", "tls", "scram", "mtls", "msk-iam"], var.kafka.auth)
    error_message = "kafka.auth: use none, tls, scram, mtls or msk-iam."
  }
  validation {
    condition     = var.kafka.auth != "msk-iam" || var.kafka.msk_cluster_arn != null
    error_message = "kafka.auth: msk-iam needs kafka.msk_cluster_arn; for other brokers use tls, scram or mtls."
  }
  validation {
    condition     = !contains(["scram", "mtls"], var.kafka.auth) || var.kafka.secret_arn != null
    error_message = "kafka.secret_arn: scram and mtls read their credentials from a Secrets Manager secret; give its ARN."
  }
  validation {
    condition     = contains(["scram", "mtls"], var.kafka.auth) || var.kafka.secret_arn == null
    error_message = "kafka.secret_arn: is read with auth scram or mtls only; leave it out or change kafka.auth."
  }
  validation {
    condition = alltrue([
      for arn in [var.kafka.secret_arn, var.kafka.ca_secret_arn] :
      arn == null || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}$", arn))
    ])
    error_message = "kafka.secret_arn, kafka.ca_secret_arn: give the whole ARN of the secret with its six random characters at the end; roles may read exactly that one."
  }
  validation {
    condition = alltrue([
      for arn in [var.kafka.secret_kms_key_arn, var.kafka.ca_secret_kms_key_arn] :
      arn == null || can(regex("^arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+$", arn))
    ])
    error_message = "kafka.secret_kms_key_arn, kafka.ca_secret_kms_key_arn: give the ARN of a key (arn:aws:kms:REGION:ACCOUNT:key/ID), not of an alias."
  }
  validation {
    condition     = contains([256, 512], var.kafka.scram_mechanism)
    error_message = "kafka.scram_mechanism: use 512 (SCRAM-SHA-512) or 256 (SCRAM-SHA-256)."
  }
  validation {
    condition     = var.kafka.msk_cluster_arn == null || var.kafka.auth != "scram" || var.kafka.scram_mechanism == 512
    error_message = "kafka.scram_mechanism: MSK knows SCRAM-SHA-512 only."
  }
  validation {
    condition = var.kafka.msk_cluster_arn == null || var.kafka.auth != "scram" || (
      can(regex(":secret:AmazonMSK_", var.kafka.secret_arn)) && var.kafka.secret_kms_key_arn != null
    )
    error_message = "kafka.secret_arn: MSK takes secrets for scram only if their name begins with AmazonMSK_ and they have a customer key; give both ARNs (secret_arn, secret_kms_key_arn)."
  }
  validation {
    condition     = var.kafka.ca_secret_arn == null || (var.kafka.msk_cluster_arn == null && var.kafka.auth != "none")
    error_message = "kafka.ca_secret_arn: is for brokers outside of MSK that are spoken to over TLS."
  }
  validation {
    condition     = length(setintersection(keys(var.kafka.settings), ["sasl.password", "ssl.key.pem", "ssl.key.password"])) == 0
    error_message = "kafka.settings: credentials do not belong into settings, where everybody who reads the function sees them; put them into the secret."
  }
}

variable "mapping" {
  description = <<-EOT
    How Lambda reads the topics: one mapping a topic.
    mode: provisioned (partial batch responses, retry limits, bisection, kept records) or plain (a failed batch is retried as a whole until it succeeds).
    high_lanes: whether orders of high priority have topics and mappings of their own. Without them there is no topic to
    which such an order could go. Turn them off only when none is under way, and delete their topics then, because nothing reads
    what is written to one that is still there.
    events: whether events from outside have a topic and a mapping. Without them a step that awaits one waits until its time is
    over. Turn them off only when no order under way awaits one, and delete the topic then, for the same reason.
    pollers_least, pollers_most: pollers of each mapping; provisioned mode only.
    poller_group: name under which the mappings share the units that pollers are paid by; null: the installation's name, in a
    VPC. "": no group, and each mapping pays for units of its own.
    batch_size: most records of one invocation.
    batching_window_seconds: longest wait for a batch to fill; null: none in provisioned mode, Lambda's 500 ms in plain mode.
    retries, record_age_seconds: when a record is given up and kept in the failure bucket; -1 is never.
    enabled: false stops all reading; in lanes, that of single topics.
    lanes: other values for single topics, by topic name.
  EOT
  type = object({
    mode                    = optional(string, "provisioned")
    high_lanes              = optional(bool, true)
    events                  = optional(bool, true)
    pollers_least           = optional(number, 1)
    pollers_most            = optional(number, 2)
    poller_group            = optional(string)
    batch_size              = optional(number, 100)
    batching_window_seconds = optional(number)
    retries                 = optional(number, 100)
    record_age_seconds      = optional(number, 86400)
    enabled                 = optional(bool, true)
    lanes = optional(map(object({
      pollers_least           = optional(number)
      pollers_most            = optional(number)
      batch_size              = optional(number)
      batching_window_seconds = optional(number)
      retries                 = optional(number)
      record_age_seconds      = optional(number)
      enabled                 = optional(bool)
    })), {})
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["provisioned", "plain"], var.mapping.mode)
    error_message = "mapping.mode: use provisioned or plain."
  }
  validation {
    condition = alltrue([
      for lane in concat([var.mapping], values(var.mapping.lanes)) : alltrue([
        for least in [coalesce(lane.pollers_least, var.mapping.pollers_least)] : alltrue([
          for most in [coalesce(lane.pollers_most, var.mapping.pollers_most)] :
          1 <= least && least <= 200 && least <= most && most <= 2000 && floor(least) == least && floor(most) == most
        ])
      ])
    ])
    error_message = "mapping: pollers_least is a whole number from 1 to 200, pollers_most one from pollers_least to 2000, in each lane too."
  }
  validation {
    condition     = var.mapping.poller_group == null || (var.mapping.mode == "provisioned" && can(regex("^[A-Za-z0-9_-]{0,128}$", var.mapping.poller_group)))
    error_message = "mapping.poller_group: use up to 128 letters, digits, '-' and '_', in provisioned mode."
  }
  validation {
    condition = alltrue([
      for n in concat([var.mapping.batch_size], [for lane in var.mapping.lanes : lane.batch_size if lane.batch_size != null]) :
      n >= 1 && n <= 10000 && floor(n) == n
    ])
    error_message = "mapping.batch_size: give a whole number from 1 to 10000."
  }
  validation {
    condition = alltrue([
      for n in concat([var.mapping.batching_window_seconds], [for lane in var.mapping.lanes : lane.batching_window_seconds]) :
      n == null || try(n >= (var.mapping.mode == "provisioned" ? 0 : 1) && n <= 300 && floor(n) == n, false)
    ])
    error_message = "mapping.batching_window_seconds: give whole seconds from 0 to 300, in plain mode from 1 on, or leave it out."
  }
  validation {
    condition = alltrue([
      for n in concat([var.mapping.retries], [for lane in var.mapping.lanes : lane.retries if lane.retries != null]) :
      n >= -1 && n <= 10000 && floor(n) == n
    ])
    error_message = "mapping.retries: give a whole number from 0 to 10000, or -1 for retries without end."
  }
  validation {
    condition = alltrue([
      for n in concat([var.mapping.record_age_seconds], [for lane in var.mapping.lanes : lane.record_age_seconds if lane.record_age_seconds != null]) :
      n == -1 || (n >= 60 && n <= 604800 && floor(n) == n)
    ])
    error_message = "mapping.record_age_seconds: give 60 to 604800 seconds, or -1 for no limit."
  }
  validation {
    condition = length(setsubtract(keys(var.mapping.lanes), concat(
      ["alerts"], var.mapping.events ? ["events"] : [], keys(var.mapping.high_lanes ? local.both_lanes : local.normal_lanes),
    ))) == 0
    error_message = "mapping.lanes: every key must be a topic that is read: ${join(", ", concat(
      ["alerts"], var.mapping.events ? ["events"] : [], keys(var.mapping.high_lanes ? local.both_lanes : local.normal_lanes),
    ))}."
  }
}

variable "reply_topics" {
  description = "Reply topics that applications may name in an order, reply.<app>; TRIAD_REPLY_TOPICS."
  type        = list(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for topic in var.reply_topics : can(regex("^reply\\.[a-z][a-z0-9_-]{0,63}$", topic))])
    error_message = "reply_topics: each must be reply.<app>, the app's name being lower-case letters, digits, '-' and '_' after a letter."
  }
}

variable "topics" {
  description = <<-EOT
    The topics, which the function `setup` makes on apply. One that exists must have these settings, or the apply fails:
    it may be another program's. To change one, change it in Kafka and here; Terraform changes and deletes none.
    create: false: you make them yourself, for example by `triad init --topics-only`.
    partitions: of each topic. replication: copies of each partition; 0: as many as the brokers give to a new topic.
    min_insync_replicas: copies that must have a record before it counts as written; 0: the brokers' setting.
    retention_days: of orders, orders.high and events, from which a restore submits again; of dead-letter, from which is replayed; of
    others.
    max_message_bytes: largest batch of records, 1000000 or more.
  EOT
  type = object({
    create              = optional(bool, true)
    partitions          = optional(number, 8)
    replication         = optional(number, 3)
    min_insync_replicas = optional(number, 2)
    retention_days = optional(object({
      orders      = optional(number, 14)
      dead_letter = optional(number, 30)
      others      = optional(number, 7)
    }), {})
    max_message_bytes = optional(number, 1048588)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.topics.partitions >= 1 && var.topics.partitions <= 1000 && floor(var.topics.partitions) == var.topics.partitions
    error_message = "topics.partitions: give a whole number from 1 to 1000."
  }
  validation {
    condition = alltrue([
      for n in [var.topics.replication, var.topics.min_insync_replicas] : n >= 0 && n <= 9 && floor(n) == n
    ])
    error_message = "topics: replication and min_insync_replicas are whole numbers from 1 to 9, or 0 for the brokers' own."
  }
  validation {
    condition     = var.topics.replication == 0 || var.topics.min_insync_replicas <= max(var.topics.replication - 1, 1)
    error_message = "topics.min_insync_replicas: must be less than topics.replication, or nothing can be written while one broker is away."
  }
  validation {
    condition     = alltrue([for days in values(var.topics.retention_days) : days >= 1 && days <= 3650])
    error_message = "topics.retention_days: give 1 to 3650 days."
  }
  validation {
    condition     = var.topics.max_message_bytes >= 1000000 && var.topics.max_message_bytes <= 10485760 && floor(var.topics.max_message_bytes) == var.topics.max_message_bytes
    error_message = "topics.max_message_bytes: give 1000000 to 10485760; the functions write records of up to 1000000 bytes."
  }
}
