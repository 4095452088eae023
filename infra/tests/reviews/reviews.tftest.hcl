# Plans of four installations, for the reviews in tests/infra: policies.py holds what the roles
# may do against AWS's own list of actions, checkov looks at the plans, and permissions.json is made
# of them (but for the one across accounts). Together they have every statement of every role; the console is one on which operators act, and in
# self_managed_scram one to look at alone.

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
    setup      = "./tests/fixtures/packages/setup.zip"
    console    = "./tests/fixtures/packages/console.zip"
  }
  agents = {
    payment   = { base_url = "https://pay.example/v1" }
    inventory = { base_url = "https://stock.example" }
  }
  reply_topics        = ["reply.shop"]
  alert_subscriptions = { team = { protocol = "email", endpoint = "team@shop.example" } }
  operator            = "ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"
  network             = { subnet_ids = ["subnet-0a"], security_group_ids = ["sg-0a"] }
}

run "msk_iam" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
    vpc         = var.network
    console     = { tokens = [var.operator] }
    agents = {
      payment   = { lambda = "charge:live" }
      inventory = { sqs = "https://sqs.eu-west-1.amazonaws.com/111122223333/stock.fifo", kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/66666666-2222-3333-4444-555555555555" }
    }
    kafka = {
      brokers         = "b-1.example.internal:9098"
      msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth            = "msk-iam"
    }
  }
}

run "self_managed_scram" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
    vpc         = var.network
    console     = { tokens = [var.operator], read_only = true }
    agents = {
      payment = {
        base_url            = "https://pay.example/v1"
        auth                = { bearer = { secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay/token-MnOpQr" } }
        secret_kms_key_arns = ["arn:aws:kms:eu-west-1:111122223333:key/77777777-2222-3333-4444-555555555555"]
      }
      inventory = { base_url = "https://stock.example" }
    }
    kafka = {
      brokers               = "kafka-1.example:9093"
      auth                  = "scram"
      secret_arn            = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf"
      secret_kms_key_arn    = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"
      ca_secret_arn         = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/ca-GhIjKl"
      ca_secret_kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/88888888-2222-3333-4444-555555555555"
    }
  }
}

# A cluster of another account, with SCRAM.
run "msk_scram_across_accounts" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
    vpc         = var.network
    kafka = {
      brokers                = "b-1.example.internal:14001"
      msk_cluster_arn        = "arn:aws:kafka:eu-west-1:444455556666:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      msk_vpc_connection_arn = "arn:aws:kafka:eu-west-1:111122223333:vpc-connection/444455556666/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth                   = "scram"
      secret_arn             = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:AmazonMSK_triad-AbCdEf"
      secret_kms_key_arn     = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"
    }
  }
}

# What is there only where it is asked for: caps on orders in flight, details that expire.
run "caps_and_expiry" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
    vpc         = var.network
    admission   = { max_in_flight_per_workflow = { small = 1 } }
    timing      = { details_retention = "90days" }
    console     = { tokens = [var.operator] }
    agents = {
      payment   = { base_url = "https://pay.example/v1" }
      inventory = { sns = "arn:aws:sns:eu-west-1:111122223333:stock" }
    }
    kafka = {
      brokers         = "b-1.example.internal:9098"
      msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth            = "msk-iam"
    }
  }
}
