# A small installation on MSK with IAM; the files here vary it.

packages = {
  submission = "./tests/fixtures/packages/submission.zip"
  scheduler  = "./tests/fixtures/packages/scheduler.zip"
  agent      = "./tests/fixtures/packages/agent.zip"
  supervisor = "./tests/fixtures/packages/supervisor.zip"
  alerts     = "./tests/fixtures/packages/alerts.zip"
  setup      = "./tests/fixtures/packages/setup.zip"
  console    = "./tests/fixtures/packages/console.zip"
}

kafka = {
  brokers         = "b-1.example.internal:9098,b-2.example.internal:9098"
  msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
  auth            = "msk-iam"
}

vpc = {
  subnet_ids         = ["subnet-0a", "subnet-0b"]
  security_group_ids = ["sg-0a"]
}

agents = {
  payment   = { base_url = "https://pay.example/v1" }
  inventory = { base_url = "https://stock.example" }
}
