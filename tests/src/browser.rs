//! Headless Chromium, controlled by the DevTools protocol over two pipes, without a port or a driver.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::poll::{PATIENCE, until};
use crate::skipped::skipped;

/// Usual paths of Chromium, for example on Debian.
const PLACES: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// A browser with one page. It is killed when this is dropped.
pub struct Browser {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    asked: u64,
    clicks: usize,
    _profile: TempDir,
}

fn installed() -> Option<PathBuf> {
    let found = PLACES.iter().map(Path::new).find(|place| place.exists());
    if found.is_none() {
        skipped("browser", "no Chromium; apt-get install chromium");
    }
    found.map(Path::to_owned)
}

impl Browser {
    /// Starts a browser with an empty page; `None`, with a note in the list of skips, if Chromium is missing.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Option<Self> {
        let program = installed()?;
        let profile = TempDir::new().expect("a directory");
        // The protocol uses the descriptors 3 and 4; each message ends with NUL.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--disable-dev-shm-usage", "--lang=en-GB"])
            .args(["--remote-debugging-pipe", "--window-size=1280,900"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .env("TZ", "Europe/Berlin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let mut browser = Self {
            _child: child,
            input,
            output: BufReader::new(output),
            session: None,
            asked: 0,
            clicks: 0,
            _profile: profile,
        };
        let page = json!({"url": "about:blank"});
        let page = browser.ask("Target.createTarget", page).await;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", attach).await;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.ask("Page.enable", json!({})).await;
        // The format of times depends on the locale, and some builds ignore `--lang`.
        let locale = json!({"locale": "en-GB"});
        browser.ask("Emulation.setLocaleOverride", locale).await;
        Some(browser)
    }

    /// Sends a command, and waits for its answer.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let sent = self.input.write_all(&bytes).await;
        sent.expect("the browser takes it");
        let answer = tokio::time::timeout(PATIENCE, self.answer()).await;
        answer.unwrap_or_else(|_| panic!("no answer to {method}"))
    }

    async fn answer(&mut self) -> Value {
        loop {
            let mut bytes = Vec::new();
            let read = self.output.read_until(0, &mut bytes).await;
            assert!(read.expect("it can be read") > 0, "the browser has ended");
            bytes.pop();
            let said: Value = serde_json::from_slice(&bytes).expect("JSON");
            if said["id"] == self.asked {
                assert!(said["error"].is_null(), "{said}");
                return said["result"].clone();
            }
        }
    }

    /// The value of a JavaScript expression in the page.
    ///
    /// # Panics
    /// If it throws.
    pub async fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let said = self.ask("Runtime.evaluate", params).await;
        assert!(said["exceptionDetails"].is_null(), "{expression}: {said}");
        said["result"]["value"].clone()
    }

    /// The text of the first element that matches a selector; empty if there is none.
    pub async fn text(&mut self, selector: &str) -> String {
        let selector = Value::from(selector);
        let found = format!("(document.querySelector({selector})?.innerText ?? '').trim()");
        self.value(&found)
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The texts of all elements that match a selector.
    pub async fn texts(&mut self, selector: &str) -> Vec<String> {
        let selector = Value::from(selector);
        let found =
            format!("[...document.querySelectorAll({selector})].map(e => e.innerText.trim())");
        let found = self.value(&found).await;
        let texts = found.as_array().into_iter().flatten();
        texts
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    }

    /// The texts of all elements that match a selector, also of those that are shown only on hover, such as titles in
    /// a drawing.
    pub async fn titles(&mut self, selector: &str) -> Vec<String> {
        let selector = Value::from(selector);
        let found = format!("[...document.querySelectorAll({selector})].map(e => e.textContent)");
        let found = self.value(&found).await;
        let texts = found.as_array().into_iter().flatten();
        texts
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    }

    /// Opens an address, and waits until the page has loaded.
    pub async fn go(&mut self, address: &str) {
        self.value("window.before = true").await;
        self.ask("Page.navigate", json!({"url": address})).await;
        self.loaded().await;
    }

    /// Clicks on the first element that matches a selector. If it leads to another page, waits until that has loaded.
    ///
    /// # Panics
    /// If the element is missing or not visible.
    pub async fn click(&mut self, selector: &str, leads_away: bool) {
        self.clicks += 1;
        self.value("window.before = true").await;
        let found = Value::from(selector);
        let is_seen = format!("document.querySelector({found})?.checkVisibility() ?? false");
        assert_eq!(self.value(&is_seen).await, true, "{selector} is not seen");
        let click = format!("document.querySelector({found}).click()");
        // As a user's gesture; otherwise Chromium would not open a tab.
        let params = json!({"expression": click, "userGesture": true});
        let said = self.ask("Runtime.evaluate", params).await;
        assert!(said["exceptionDetails"].is_null(), "{selector}: {said}");
        if leads_away {
            self.loaded().await;
        }
    }

    /// Number of clicks so far.
    #[must_use]
    pub fn clicks(&self) -> usize {
        self.clicks
    }

    /// Selects an option of a list by its value.
    pub async fn choose(&mut self, selector: &str, value: &str) {
        let (selector, value) = (Value::from(selector), Value::from(value));
        self.value(&format!(
            "{{ const list = document.querySelector({selector}); list.value = {value}; \
             list.dispatchEvent(new Event('change', {{ bubbles: true }})) }}"
        ))
        .await;
    }

    /// Sets the text of a field.
    pub async fn write(&mut self, selector: &str, text: &str) {
        let (selector, text) = (Value::from(selector), Value::from(text));
        self.value(&format!(
            "document.querySelector({selector}).value = {text}"
        ))
        .await;
    }

    /// Presses a key: `Tab`, `Enter` or `Space`.
    ///
    /// # Panics
    /// For another key.
    pub async fn press(&mut self, key: &str) {
        let (name, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            "Space" => (" ", 32, " "),
            other => panic!("the key {other}"),
        };
        let pressed = |kind: &str| json!({"type": kind, "key": name, "code": key, "windowsVirtualKeyCode": number});
        let mut down = pressed("keyDown");
        if text.is_empty() {
            down["type"] = "rawKeyDown".into();
        } else {
            down["text"] = text.into();
        }
        self.ask("Input.dispatchKeyEvent", down).await;
        self.ask("Input.dispatchKeyEvent", pressed("keyUp")).await;
    }

    /// Presses Tab until the first element that matches a selector has the focus.
    ///
    /// # Panics
    /// If it has no focus after 300 times.
    pub async fn tab_to(&mut self, selector: &str) {
        let found = Value::from(selector);
        let has_focus = format!("document.activeElement === document.querySelector({found})");
        for _ in 0..300 {
            if self.value(&has_focus).await == true {
                return;
            }
            self.press("Tab").await;
        }
        panic!("no key leads to {selector}");
    }

    /// Presses Enter on a link to another page, and waits until that has loaded.
    pub async fn enter(&mut self) {
        self.value("window.before = true").await;
        self.press("Enter").await;
        self.loaded().await;
    }

    /// Types a text into the field that has the focus.
    pub async fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text})).await;
    }

    async fn loaded(&mut self) {
        let ready = "window.before === undefined && document.readyState === 'complete'";
        until("the page is there", async || {
            // While the page changes, the evaluation may fail.
            let params = json!({"expression": ready, "returnByValue": true});
            let said = self.ask("Runtime.evaluate", params).await;
            (said["result"]["value"] == true).then_some(())
        })
        .await;
    }

    /// Sets the width and the colour scheme of the page.
    pub async fn look(&mut self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size).await;
        let dark = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", dark).await;
    }

    /// Saves a screenshot of the page, at most `most` pixels high.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub async fn save(&mut self, file: &Path, most: u64) {
        let size = self
            .value("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
            .await;
        let height = size[1].as_u64().unwrap_or(900).min(most);
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": height, "scale": 1});
        let params = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
        let said = self.ask("Page.captureScreenshot", params).await;
        let bytes = STANDARD.decode(said["data"].as_str().unwrap_or_default());
        std::fs::write(file, bytes.expect("an image")).expect("it is saved");
    }
}
