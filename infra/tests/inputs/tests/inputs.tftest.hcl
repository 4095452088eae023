# Every input is checked: a run for each rule, with one value that breaks it.

run "the_values_of_the_other_runs_are_sound" {
  command = plan
}

run "prefix_without_its_hyphen" {
  command = plan
  variables {
    name_prefix = "shop"
  }
  expect_failures = [var.name_prefix]
}

run "prefix_in_capitals" {
  command = plan
  variables {
    name_prefix = "Shop-"
  }
  expect_failures = [var.name_prefix]
}

run "prefix_too_long_for_buckets" {
  command = plan
  variables {
    name_prefix = "a-name-of-more-than-20-"
  }
  expect_failures = [var.name_prefix]
}

run "vpc_without_subnets" {
  command = plan
  variables {
    vpc = { subnet_ids = [], security_group_ids = ["sg-0a"] }
  }
  expect_failures = [var.vpc]
}

run "vpc_with_names_for_ids" {
  command = plan
  variables {
    vpc = { subnet_ids = ["subnet-0a"], security_group_ids = ["brokers"] }
  }
  expect_failures = [var.vpc]
}

run "msk_without_vpc" {
  command = plan
  variables {
    vpc = null
  }
  expect_failures = [var.vpc]
}

run "key_by_alias" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:alias/triad"
  }
  expect_failures = [var.kms_key_arn]
}

run "boundary_that_is_a_role" {
  command = plan
  variables {
    permissions_boundary_arn = "arn:aws:iam::111122223333:role/admin"
  }
  expect_failures = [var.permissions_boundary_arn]
}

run "package_that_is_not_there" {
  command = plan
  variables {
    packages = {
      submission = "../fixtures/packages/submission.zip"
      scheduler  = "../fixtures/packages/submission.zip"
      agent      = "../fixtures/packages/submission.zip"
      supervisor = "../fixtures/packages/submission.zip"
      alerts     = "../fixtures/missing.zip"
      setup      = "../fixtures/packages/submission.zip"
    }
  }
  expect_failures = [var.packages]
}

run "console_without_its_package" {
  command = plan
  variables {
    packages = {
      submission = "../fixtures/packages/submission.zip"
      scheduler  = "../fixtures/packages/submission.zip"
      agent      = "../fixtures/packages/submission.zip"
      supervisor = "../fixtures/packages/submission.zip"
      alerts     = "../fixtures/packages/submission.zip"
      setup      = "../fixtures/packages/submission.zip"
    }
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"] }
  }
  expect_failures = [var.packages]
}

run "console_without_tokens" {
  command = plan
  variables {
    console = { tokens = [] }
  }
  expect_failures = [var.console]
}

run "console_with_the_token_itself" {
  command = plan
  variables {
    console = { tokens = ["ann triad_0000 operate"] }
  }
  expect_failures = [var.console]
}

run "console_with_more_tokens_than_an_environment_holds" {
  command = plan
  variables {
    console = { tokens = [for n in range(40) : "n${n} 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 read"] }
  }
  expect_failures = [var.console]
}

run "console_hidden_field_with_a_comma" {
  command = plan
  variables {
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"], hidden = ["card,iban"] }
  }
  expect_failures = [var.console]
}

run "console_shorter_than_an_act" {
  command = plan
  variables {
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"], timeout_seconds = 20 }
  }
  expect_failures = [var.console]
}

run "console_that_takes_nothing" {
  command = plan
  variables {
    console = { tokens = ["ann 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 operate"], reserved_concurrency = 0 }
  }
  expect_failures = [var.console]
}

run "unknown_architecture" {
  command = plan
  variables {
    architecture = "riscv64"
  }
  expect_failures = [var.architecture]
}

run "function_too_small" {
  command = plan
  variables {
    functions = { scheduler = { memory_mb = 64 } }
  }
  expect_failures = [var.functions]
}

run "function_longer_than_a_mapping_allows" {
  command = plan
  variables {
    functions = { submission = { timeout_seconds = 900 } }
  }
  expect_failures = [var.functions]
}

run "sweep_longer_than_its_interval" {
  command = plan
  variables {
    functions = { supervisor = { timeout_seconds = 300 } }
  }
  expect_failures = [var.functions]
}

run "no_agents" {
  command = plan
  variables {
    agents = {}
  }
  expect_failures = [var.agents]
}

run "agent_name_with_a_dot" {
  command = plan
  variables {
    agents = { "pay.ment" = { base_url = "https://pay.example" } }
  }
  expect_failures = [var.agents]
}

run "agent_address_with_a_user" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://user@pay.example" } }
  }
  expect_failures = [var.agents]
}

run "agent_call_timeout_without_a_unit" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", call_timeout = "5" } }
  }
  expect_failures = [var.agents]
}

run "agent_without_any_concurrency" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", concurrency = 0 } }
  }
  expect_failures = [var.agents]
}

run "agent_with_half_a_call_at_once" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", concurrency = 1.5 } }
  }
  expect_failures = [var.agents]
}

run "agent_with_half_a_call_a_second" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", rate_per_second = 0.5 } }
  }
  expect_failures = [var.agents]
}

run "agent_with_every_setting_of_its_breaker" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", breaker = {
      window = 50, minimum = 20, failure_percent = 30, probes = 1, open = "2s", max_open = "5m", probe_within = "10s"
    } } }
  }
}

run "agent_with_an_unknown_setting_of_its_breaker" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", breaker = { failures = 5 } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_breaker_open_for_a_number" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", breaker = { open = 30 } } }
  }
  expect_failures = [var.agents]
}

run "agent_longer_than_a_mapping_allows" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", timeout_seconds = 841 } }
  }
  expect_failures = [var.agents]
}

run "agents_of_functions_queues_and_topics" {
  command = plan
  variables {
    agents = {
      a = { lambda = "charge:live" }
      b = { lambda = "arn:aws:lambda:eu-west-1:111122223333:function:charge" }
      c = { sqs = "https://sqs.eu-west-1.amazonaws.com/111122223333/paid.fifo", kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555" }
      d = { sns = "arn:aws:sns:eu-west-1:111122223333:paid" }
    }
  }
}

run "agent_that_calls_nothing" {
  command = plan
  variables {
    agents = { payment = { call_timeout = "5s" } }
  }
  expect_failures = [var.agents]
}

run "agent_that_calls_two_things" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", lambda = "charge" } }
  }
  expect_failures = [var.agents]
}

run "agent_of_a_function_with_headers" {
  command = plan
  variables {
    agents = { payment = { lambda = "charge", headers = { X-Shop = "7" } } }
  }
  expect_failures = [var.agents]
}

run "agent_of_a_function_by_its_address" {
  command = plan
  variables {
    agents = { payment = { lambda = "https://charge.lambda-url.eu-west-1.on.aws" } }
  }
  expect_failures = [var.agents]
}

run "agent_of_a_queue_by_its_arn" {
  command = plan
  variables {
    agents = { payment = { sqs = "arn:aws:sqs:eu-west-1:111122223333:paid" } }
  }
  expect_failures = [var.agents]
}

run "agent_of_a_topic_by_its_name" {
  command = plan
  variables {
    agents = { payment = { sns = "paid" } }
  }
  expect_failures = [var.agents]
}

run "agent_of_a_function_with_the_key_of_a_queue" {
  command = plan
  variables {
    agents = { payment = { lambda = "charge", kms_key_arn = "arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555" } }
  }
  expect_failures = [var.agents]
}

run "agents_with_every_way_to_show_who_they_are" {
  command = plan
  variables {
    agents = {
      a = { base_url = "https://a.example", auth = { bearer = { secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay-AbCdEf" } } }
      b = { base_url = "https://b.example", auth = { basic = { user = "shop", password = { env = "PASSWORD" } } } }
      c = { base_url = "https://c.example", auth = { header = { name = "X-Api-Key", value = { file = "/opt/key" } } } }
      d = { base_url = "https://d.example", auth = { sigv4 = { service = "execute-api" } } }
      e = {
        base_url = "https://e.example"
        auth = { oauth2 = {
          token_url     = "https://login.example/token"
          client_id     = "shop"
          client_secret = { secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay-AbCdEf", field = "secret" }
        } }
        tls                 = { ca = { file = "/opt/ca.pem" } }
        secret_kms_key_arns = ["arn:aws:kms:eu-west-1:111122223333:key/99999999-2222-3333-4444-555555555555"]
      }
    }
  }
}

run "agent_that_shows_nothing_that_is_known" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", auth = { digest = { user = "shop" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_that_shows_two_things" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", auth = { bearer = { env = "A" }, sigv4 = { service = "lambda" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_secret_in_two_places" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", auth = { bearer = { env = "A", file = "/opt/a" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_secret_nowhere" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", auth = { bearer = { value = "not-a-real-token" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_field_of_no_secret" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", auth = { bearer = { env = "A", field = "token" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_secret_without_its_random_characters" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", auth = { bearer = { secret = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:pay" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_certificate_without_its_key" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", tls = { certificate = { file = "/opt/a.pem" } } } }
  }
  expect_failures = [var.agents]
}

run "agent_with_a_key_by_alias" {
  command = plan
  variables {
    agents = { payment = { base_url = "https://pay.example", secret_kms_key_arns = ["arn:aws:kms:eu-west-1:111122223333:alias/triad"] } }
  }
  expect_failures = [var.agents]
}

run "unknown_admission" {
  command = plan
  variables {
    admission = { when_full = "drop" }
  }
  expect_failures = [var.admission]
}

run "no_order_may_be_under_way" {
  command = plan
  variables {
    admission = { max_in_flight = 0 }
  }
  expect_failures = [var.admission]
}

run "limit_of_a_workflow_that_cannot_be" {
  command = plan
  variables {
    admission = { max_in_flight_per_workflow = { "Order Fulfilment" = 10 } }
  }
  expect_failures = [var.admission]
}

run "backlog_wait_without_a_unit" {
  command = plan
  variables {
    admission = { backlog_wait = "600" }
  }
  expect_failures = [var.admission]
}

run "skew_that_is_no_duration" {
  command = plan
  variables {
    timing = { skew = "soon" }
  }
  expect_failures = [var.timing]
}

run "triad_variable_by_the_back_door" {
  command = plan
  variables {
    extra_environment = { TRIAD_BROKERS = "127.0.0.1:9092" }
  }
  expect_failures = [var.extra_environment]
}

run "reply_topic_without_its_prefix" {
  command = plan
  variables {
    reply_topics = ["status"]
  }
  expect_failures = [var.reply_topics]
}

run "log_retention_that_cloudwatch_does_not_know" {
  command = plan
  variables {
    log_retention_days = 100
  }
  expect_failures = [var.log_retention_days]
}

run "bucket_by_name" {
  command = plan
  variables {
    failure_bucket_arn = "shop-kept-records"
  }
  expect_failures = [var.failure_bucket_arn]
}

run "kept_records_for_a_day" {
  command = plan
  variables {
    failed_records_days = 1
  }
  expect_failures = [var.failed_records_days]
}

run "alerts_over_plain_http" {
  command = plan
  variables {
    alert_subscriptions = { pager = { protocol = "http", endpoint = "http://pager.example" } }
  }
  expect_failures = [var.alert_subscriptions]
}

run "pages_below_another_path" {
  command = plan
  variables {
    console_url = "https://triad.example/ops/console/"
  }
  expect_failures = [var.console_url]
}

run "pages_with_a_login_in_their_address" {
  command = plan
  variables {
    console_url = "https://ann@triad.example"
  }
  expect_failures = [var.console_url]
}

run "alarm_threshold_of_nothing" {
  command = plan
  variables {
    alarms = { errors = 0 }
  }
  expect_failures = [var.alarms]
}

run "alarm_threshold_of_nothing_for_one_function" {
  command = plan
  variables {
    alarms = { functions = { alerts = { errors = 0 } } }
  }
  expect_failures = [var.alarms]
}

run "alarm_thresholds_of_a_function_that_there_is_not" {
  command = plan
  variables {
    alarms = { functions = { agent-bank = { errors = 1 } } }
  }
  expect_failures = [var.alarms]
}

run "records_that_are_older_than_functions_report" {
  command = plan
  variables {
    alarms = { record_seconds = 601 }
  }
  expect_failures = [var.alarms]
}

run "topics_unread_for_half_a_minute" {
  command = plan
  variables {
    alarms = { unread_minutes = 2.5 }
  }
  expect_failures = [var.alarms]
}

run "supervisor_silent_for_a_minute_only" {
  command = plan
  variables {
    alarms = { supervisor_silent_minutes = 1 }
  }
  expect_failures = [var.alarms]
}

run "sweeps_further_apart_than_silence_may_last" {
  command = plan
  variables {
    supervisor_schedule = "rate(10 minutes)"
  }
  expect_failures = [var.alarms]
}

run "sweeps_an_hour_apart" {
  command = plan
  variables {
    supervisor_schedule = "rate(1 hour)"
  }
  expect_failures = [var.alarms]
}

run "slower_sweeps_with_a_longer_silence" {
  command = plan
  variables {
    supervisor_schedule = "rate(10 minutes)"
    alarms              = { supervisor_silent_minutes = 25 }
  }
}

run "schedule_in_words" {
  command = plan
  variables {
    supervisor_schedule = "every minute"
  }
  expect_failures = [var.supervisor_schedule]
}

run "workflows_where_there_are_none" {
  command = plan
  variables {
    workflows = { directory = "../mocks" }
  }
  expect_failures = [var.workflows]
}
