# Where Kafka is, how to log in to it, and how Lambda reads from it.

variable "kafka" {
  description = <<-EOT
    The brokers.
    brokers: bootstrap addresses for the functions, host:port, comma-separated.
    msk_cluster_arn: the MSK cluster; null for any other Kafka.
    auth: none, tls, scram, mtls or msk-iam (MSK only).
    scram_mechanism: 512 or 256 (256 not on MSK).
    secret_arn: Secrets Manager secret; scram: {"username", "password"}; mtls: {"certificate", "privateKey", "privateKeyPassword"}.
    secret_kms_key_arn: key of the secret, if it is not aws/secretsmanager.
    ca_secret_arn: secret {"certificate"} with the brokers' CA, if it is a private one.
    ca_secret_kms_key_arn: key of that secret, if it is not aws/secretsmanager.
    settings: further librdkafka settings of the functions.
  EOT
  type = object({
    brokers               = string
    msk_cluster_arn       = optional(string)
    auth                  = string
    scram_mechanism       = optional(number, 512)
    secret_arn            = optional(string)
    secret_kms_key_arn    = optional(string)
    ca_secret_arn         = optional(string)
    ca_secret_kms_key_arn = optional(string)
    settings              = optional(map(string), {})
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
    pollers: of each mapping, least and most alike; provisioned mode only.
    poller_group: name under which the mappings share their poller capacity; "" takes them out of a group again; null leaves it alone. See pollers.tf.
    batch_size: most records of one invocation.
    batching_window_seconds: longest wait for a batch to fill; null is Lambda's 500 ms.
    retries, record_age_seconds: when a record is given up and kept in the failure bucket; -1 is never.
    enabled: false stops all reading; in lanes, that of single topics.
    lanes: other values for single topics, by topic name.
  EOT
  type = object({
    mode                    = optional(string, "provisioned")
    pollers                 = optional(number, 1)
    poller_group            = optional(string)
    batch_size              = optional(number, 100)
    batching_window_seconds = optional(number)
    retries                 = optional(number, 100)
    record_age_seconds      = optional(number, 86400)
    enabled                 = optional(bool, true)
    lanes = optional(map(object({
      pollers                 = optional(number)
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
      for n in concat([var.mapping.pollers], [for lane in var.mapping.lanes : lane.pollers if lane.pollers != null]) :
      n >= 1 && n <= 200 && floor(n) == n
    ])
    error_message = "mapping.pollers: give a whole number from 1 to 200; it is the least and the most number of pollers alike."
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
      n == null || try(n >= 1 && n <= 300 && floor(n) == n, false)
    ])
    error_message = "mapping.batching_window_seconds: give whole seconds from 1 to 300, or leave it out for Lambda's 500 ms."
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
    condition     = length(setsubtract(keys(var.mapping.lanes), local.read_topics)) == 0
    error_message = "mapping.lanes: every key must be a topic that is read: ${join(", ", local.read_topics)}."
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
