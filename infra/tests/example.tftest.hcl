# The root module that teams copy.

mock_provider "aws" {
  source = "./tests/mocks"
}

override_data {
  target = data.aws_msk_cluster.this
  values = {
    arn                        = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
    bootstrap_brokers_sasl_iam = "b-1.example.internal:9098,b-2.example.internal:9098"
  }
}

run "the_example_plans" {
  command = plan
  module {
    source = "./examples/complete"
  }
  variables {
    region             = "eu-west-1"
    cluster_name       = "shop"
    subnet_ids         = ["subnet-0a"]
    security_group_ids = ["sg-0a"]
    packages_directory = "./tests/fixtures/packages"
    payment_secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:payment-AbCdEf"
    on_call_email      = "on-call@shop.example"
  }
  assert {
    condition     = output.triad.brokers == "b-1.example.internal:9098,b-2.example.internal:9098" && output.triad.prefix == "shop-"
    error_message = "the command line's output is handed on"
  }
  assert {
    condition     = join(" ", output.triad.agents) == "carrier inventory payment"
    error_message = "its agents"
  }
  assert {
    condition     = output.console_url == null
    error_message = "and no console, unless somebody is let in"
  }
}
