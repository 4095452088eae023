# A shop on an existing MSK cluster with IAM access control. Copy the directory, change `source`
# to where you have the module, and the rest by variables.

data "aws_msk_cluster" "this" {
  cluster_name = var.cluster_name
}

module "triad" {
  source = "../.."

  name_prefix         = var.name_prefix
  deletion_protection = var.deletion_protection
  packages = {
    for function in ["submission", "scheduler", "agent", "supervisor", "alerts", "setup", "console"] :
    function => "${var.packages_directory}/${function}.zip"
  }

  vpc = {
    subnet_ids         = var.subnet_ids
    security_group_ids = var.security_group_ids
  }

  kafka = {
    brokers         = data.aws_msk_cluster.this.bootstrap_brokers_sasl_iam
    msk_cluster_arn = data.aws_msk_cluster.this.arn
    auth            = "msk-iam"
  }

  # The requests of the agents' high lanes come in smaller batches, to wait less for each other.
  mapping = {
    lanes = {
      "agent.payment.high"   = { batch_size = 10 }
      "agent.inventory.high" = { batch_size = 10 }
      "agent.carrier.high"   = { batch_size = 10 }
    }
  }

  agents = {
    inventory = { base_url = "https://inventory.shop.example/v1" }
    payment = {
      base_url        = "https://payment.shop.example/v1"
      call_timeout    = "5s"
      concurrency     = 20
      rate_per_second = 50
      auth            = { bearer = { secret = var.payment_secret_arn } }
    }
    carrier = { base_url = "https://carrier.shop.example/v1" }
  }

  admission = {
    max_in_flight = 20000
    when_full     = "slow"
  }

  reply_topics = ["reply.shop"]

  workflows = { directory = "${path.module}/workflows" }

  alert_subscriptions = {
    on-call = { protocol = "email", endpoint = var.on_call_email }
  }
  alarms = {
    lag_records = 5000
  }

  # Off, unless somebody is let in.
  console = length(var.console_tokens) == 0 ? null : {
    tokens = var.console_tokens
    hidden = ["card"]
  }

  tags = { application = "shop-orders" }
}
