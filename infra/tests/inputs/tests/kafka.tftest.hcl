# What is asked about Kafka is checked: a run for each rule, with one value that breaks it.

run "brokers_without_a_port" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example", auth = "tls" }
  }
  expect_failures = [var.kafka]
}

run "brokers_with_blanks" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093, kafka-2.example:9093", auth = "tls" }
  }
  expect_failures = [var.kafka]
}

run "cluster_by_name" {
  command = plan
  variables {
    kafka = { brokers = "b-1.example:9098", auth = "msk-iam", msk_cluster_arn = "shop" }
  }
  expect_failures = [var.kafka]
}

run "unknown_auth" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "kerberos" }
  }
  expect_failures = [var.kafka]
}

run "msk_iam_outside_of_msk" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "msk-iam" }
  }
  expect_failures = [var.kafka]
}

run "scram_without_a_secret" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "scram" }
  }
  expect_failures = [var.kafka]
}

run "mutual_tls_without_a_secret" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "mtls" }
  }
  expect_failures = [var.kafka]
}

run "secret_that_nobody_reads" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "tls", secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf" }
  }
  expect_failures = [var.kafka]
}

run "secret_by_name" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "scram", secret_arn = "not-a-real-arn" }
  }
  expect_failures = [var.kafka]
}

run "secret_without_its_random_end" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "scram", secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka" }
  }
  expect_failures = [var.kafka]
}

run "secret_key_by_alias" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "scram", secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf", secret_kms_key_arn = "alias/kafka" }
  }
  expect_failures = [var.kafka]
}

run "unknown_scram_mechanism" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "scram", secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf", scram_mechanism = 1 }
  }
  expect_failures = [var.kafka]
}

run "scram_256_on_msk" {
  command = plan
  variables {
    kafka = {
      brokers            = "b-1.example:9096"
      msk_cluster_arn    = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth               = "scram"
      scram_mechanism    = 256
      secret_arn         = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:AmazonMSK_triad-AbCdEf"
      secret_kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"
    }
  }
  expect_failures = [var.kafka]
}

run "msk_secret_of_another_name" {
  command = plan
  variables {
    kafka = {
      brokers            = "b-1.example:9096"
      msk_cluster_arn    = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth               = "scram"
      secret_arn         = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/triad-AbCdEf"
      secret_kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"
    }
  }
  expect_failures = [var.kafka]
}

run "msk_secret_without_a_customer_key" {
  command = plan
  variables {
    kafka = {
      brokers         = "b-1.example:9096"
      msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth            = "scram"
      secret_arn      = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:AmazonMSK_triad-AbCdEf"
    }
  }
  expect_failures = [var.kafka]
}

run "ca_of_msk" {
  command = plan
  variables {
    kafka = {
      brokers         = "b-1.example:9094"
      msk_cluster_arn = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth            = "tls"
      ca_secret_arn   = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/ca-GhIjKl"
    }
  }
  expect_failures = [var.kafka]
}

run "ca_without_tls" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9092", auth = "none", ca_secret_arn = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka/ca-GhIjKl" }
  }
  expect_failures = [var.kafka]
}

run "credentials_among_the_settings" {
  command = plan
  variables {
    kafka = { brokers = "kafka-1.example:9093", auth = "tls", settings = { "sasl.password" = "not-a-real-one" } }
  }
  expect_failures = [var.kafka]
}

run "unknown_mode" {
  command = plan
  variables {
    mapping = { mode = "on-demand" }
  }
  expect_failures = [var.mapping]
}

run "no_pollers" {
  command = plan
  variables {
    mapping = { pollers_least = 0 }
  }
  expect_failures = [var.mapping]
}

run "too_many_pollers_of_a_lane" {
  command = plan
  variables {
    mapping = { lanes = { scheduler = { pollers_least = 201, pollers_most = 201 } } }
  }
  expect_failures = [var.mapping]
}

run "poller_group_in_plain_mode" {
  command = plan
  variables {
    mapping = { mode = "plain", poller_group = "triad" }
  }
  expect_failures = [var.mapping]
}

run "poller_group_with_a_dot" {
  command = plan
  variables {
    mapping = { poller_group = "tri.ad" }
  }
  expect_failures = [var.mapping]
}

run "batches_of_nothing" {
  command = plan
  variables {
    mapping = { batch_size = 0 }
  }
  expect_failures = [var.mapping]
}

run "window_of_half_a_second" {
  command = plan
  variables {
    mapping = { batching_window_seconds = 0.5 }
  }
  expect_failures = [var.mapping]
}

run "retries_below_endless" {
  command = plan
  variables {
    mapping = { retries = -2 }
  }
  expect_failures = [var.mapping]
}

run "record_age_below_a_minute" {
  command = plan
  variables {
    mapping = { record_age_seconds = 30 }
  }
  expect_failures = [var.mapping]
}

run "lane_that_is_not_read" {
  command = plan
  variables {
    mapping = { lanes = { status = { batch_size = 1 } } }
  }
  expect_failures = [var.mapping]
}

run "plain_connection_from_outside_of_a_vpc" {
  command = plan
  variables {
    vpc   = null
    kafka = { brokers = "kafka-1.example:9092", auth = "none" }
  }
  expect_failures = [var.vpc]
}

run "more_pollers_at_least_than_at_most" {
  command = plan
  variables {
    mapping = { pollers_least = 3 }
  }
  expect_failures = [var.mapping]
}

run "a_lane_with_more_pollers_at_least_than_at_most" {
  command = plan
  variables {
    mapping = { lanes = { scheduler = { pollers_most = 1, pollers_least = 2 } } }
  }
  expect_failures = [var.mapping]
}

run "no_window_in_plain_mode" {
  command = plan
  variables {
    mapping = { mode = "plain", batching_window_seconds = 0 }
  }
  expect_failures = [var.mapping]
}

run "high_lane_that_is_not_there" {
  command = plan
  variables {
    mapping = { high_lanes = false, lanes = { "orders.high" = { batch_size = 1 } } }
  }
  expect_failures = [var.mapping]
}

run "events_that_are_not_read" {
  command = plan
  variables {
    mapping = { events = false, lanes = { events = { batch_size = 1 } } }
  }
  expect_failures = [var.mapping]
}

run "topics_without_partitions" {
  command = plan
  variables {
    topics = { partitions = 0 }
  }
  expect_failures = [var.topics]
}

run "topics_with_half_a_copy" {
  command = plan
  variables {
    topics = { replication = 1.5 }
  }
  expect_failures = [var.topics]
}

run "topics_that_a_lost_broker_stops" {
  command = plan
  variables {
    topics = { replication = 2, min_insync_replicas = 2 }
  }
  expect_failures = [var.topics]
}

run "topics_that_keep_nothing" {
  command = plan
  variables {
    topics = { retention_days = { orders = 0 } }
  }
  expect_failures = [var.topics]
}

run "topics_too_small_for_what_is_written" {
  command = plan
  variables {
    topics = { max_message_bytes = 100000 }
  }
  expect_failures = [var.topics]
}

run "topics_of_one_broker" {
  command = plan
  variables {
    topics = { replication = 1, min_insync_replicas = 1 }
  }
}

run "topics_with_the_brokers_own_settings" {
  command = plan
  variables {
    topics = { replication = 0, min_insync_replicas = 0 }
  }
}

run "vpc_connection_of_another_owner_than_the_cluster" {
  command = plan
  variables {
    kafka = {
      brokers                = "b-1.example:9098"
      msk_cluster_arn        = "arn:aws:kafka:eu-west-1:111122223333:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      msk_vpc_connection_arn = "arn:aws:kafka:eu-west-1:111122223333:vpc-connection/444455556666/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth                   = "msk-iam"
    }
  }
  expect_failures = [var.kafka]
}

run "vpc_connection_without_its_cluster" {
  command = plan
  variables {
    kafka = {
      brokers                = "b-1.example:9094"
      msk_vpc_connection_arn = "arn:aws:kafka:eu-west-1:111122223333:vpc-connection/444455556666/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth                   = "tls"
    }
  }
  expect_failures = [var.kafka]
}

run "vpc_connection_without_a_login" {
  command = plan
  variables {
    kafka = {
      brokers                = "b-1.example:9092"
      msk_cluster_arn        = "arn:aws:kafka:eu-west-1:444455556666:cluster/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      msk_vpc_connection_arn = "arn:aws:kafka:eu-west-1:111122223333:vpc-connection/444455556666/shop/0a1b2c3d-0000-0000-0000-000000000000-1"
      auth                   = "none"
    }
  }
  expect_failures = [var.kafka]
}
