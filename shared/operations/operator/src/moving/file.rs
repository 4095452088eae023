//! Writes and reads an export file, line by line.

use std::io::{self, BufRead, Read as _, Write};

use sha2::{Digest, Sha256};
use triad_core::Timestamp;
use triad_runtime::moving::StoredItem;

use super::export_line::{ExportLine, Header, Message, MovedCounts};

/// Version of the form of the file that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Longest line of a file, in bytes, inclusive: 16 MiB. The line of the largest order has less than a tenth
/// of this.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// Beginning of a line; its checksum follows, eight hexadecimal digits.
const BEFORE: &str = "{\"crc\":\"";
/// Text between the checksum and the line's content.
const BETWEEN: &str = "\",\"line\":";
/// Digits of the checksum.
const DIGITS: usize = 8;

/// Why a file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system failed to read or write; this is its error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The first line is not that of an export.
    #[error("this is no export of triad")]
    NoExport,
    /// The file has this version of the form, which is not [`VERSION`].
    #[error(
        "the file has form {0}, and this triad reads form {VERSION} alone: use the triad that wrote it, or a later one"
    )]
    Version(u32),
    /// A line is not as it was written, is too long, or does not belong at its place.
    #[error("line {line} is damaged: {why}")]
    Damaged {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it, for people.
        why: String,
    },
    /// The last line is missing: the export was not finished, or the file was cut off. The number is that of
    /// the last line that was read, from 1.
    #[error(
        "the file ends after line {0} without its last line: the export was not finished, or the file was cut off"
    )]
    Truncated(u64),
    /// The line with this number, from 1, would be longer than [`MAX_LINE_BYTES`], and was not written.
    #[error("line {0} would be longer than {MAX_LINE_BYTES} bytes")]
    TooLong(u64),
}

/// A line's checksum: CRC-32C of its number and its content.
fn checksum(line: u64, content: &str) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&line.to_le_bytes()), content.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file that is being written to `W`. It is whole once [`finish`](Self::finish) has been called.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    sum: Sha256,
    lines: u64,
    counts: MovedCounts,
}

impl<W: Write> Writer<W> {
    /// Begins a file and writes its first line. `from` is the kind of store that is exported, for people;
    /// `at` is the present time.
    ///
    /// # Errors
    /// [`FileError::Io`] if `out` cannot be written.
    pub fn begin(out: W, from: &str, at: Timestamp) -> Result<Self, FileError> {
        let mut writer = Self {
            out,
            sum: Sha256::new(),
            lines: 0,
            counts: MovedCounts::default(),
        };
        writer.put(&ExportLine::Export(Header {
            version: VERSION,
            from: from.to_owned(),
            at_ms: at.0,
        }))?;
        Ok(writer)
    }

    /// Writes one thing that a store keeps, as one line.
    ///
    /// # Errors
    /// [`FileError::Io`] if it cannot be written, [`FileError::TooLong`] if its line is too long.
    pub fn keep(&mut self, kept: &StoredItem) -> Result<(), FileError> {
        self.put(&ExportLine::of(kept))
    }

    /// Writes a message that was sent and that no process has handled yet, as one line.
    ///
    /// # Errors
    /// [`FileError::Io`] if it cannot be written, [`FileError::TooLong`] if its line is too long.
    pub fn message(&mut self, message: Message) -> Result<(), FileError> {
        self.put(&ExportLine::Message(message))
    }

    /// How many things of each kind have been written.
    #[must_use]
    pub fn counts(&self) -> MovedCounts {
        self.counts
    }

    /// Writes the last line and flushes. Returns the writer that was given to [`begin`](Self::begin), and how
    /// many things of each kind the file has.
    ///
    /// # Errors
    /// [`FileError::Io`] if it cannot be written. The file is not whole then.
    pub fn finish(mut self) -> Result<(W, MovedCounts), FileError> {
        let sha256 = hex(&self.sum.clone().finalize());
        let counts = self.counts;
        self.put(&ExportLine::End { counts, sha256 })?;
        self.out.flush()?;
        Ok((self.out, counts))
    }

    fn put(&mut self, line: &ExportLine) -> Result<(), FileError> {
        let number = self.lines + 1;
        let content = serde_json::to_string(line).map_err(io::Error::other)?;
        let sum = checksum(number, &content);
        let text = format!("{BEFORE}{sum:08x}{BETWEEN}{content}}}\n");
        if text.len() as u64 > MAX_LINE_BYTES {
            return Err(FileError::TooLong(number));
        }
        self.out.write_all(text.as_bytes())?;
        self.sum.update(text.as_bytes());
        self.counts.add(line);
        self.lines = number;
        Ok(())
    }
}

/// A file that is being read from `R`. Every line is checked when it is read. The file is known to be whole
/// once [`read`](Self::read) has returned `None`.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    sum: Sha256,
    lines: u64,
    counts: MovedCounts,
    is_ended: bool,
}

/// What one line of a file holds, between the first and the last.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A thing that a store keeps.
    Kept(StoredItem),
    /// A message that was sent and that no process had handled.
    Message(Message),
}

impl<R: BufRead> Reader<R> {
    /// Begins to read a file: reads its first line.
    ///
    /// # Errors
    /// [`FileError::Io`] if the file cannot be read, [`FileError::NoExport`] if it is empty or not an export,
    /// [`FileError::Version`] if its form has another version than [`VERSION`], [`FileError::Damaged`] if its
    /// first line is damaged.
    pub fn begin(from: R) -> Result<Self, FileError> {
        let mut reader = Self {
            from,
            header: Header {
                version: VERSION,
                from: String::new(),
                at_ms: 0,
            },
            sum: Sha256::new(),
            lines: 0,
            counts: MovedCounts::default(),
            is_ended: false,
        };
        let text = reader.text().map_err(|e| match e {
            FileError::Io(e) if e.kind() != io::ErrorKind::InvalidData => FileError::Io(e),
            _ => FileError::NoExport,
        })?;
        reader.header = reader.header_of(&text)?;
        reader.take_in(&text);
        Ok(reader)
    }

    /// Checks the version first: another version may have another form.
    fn header_of(&self, text: &str) -> Result<Header, FileError> {
        let whole: serde_json::Value =
            serde_json::from_str(text).map_err(|_| FileError::NoExport)?;
        let line = &whole["line"];
        if line["kind"] != "export" {
            return Err(FileError::NoExport);
        }
        let version = line["version"].as_u64().and_then(|v| u32::try_from(v).ok());
        match version {
            Some(VERSION) => {}
            Some(other) => return Err(FileError::Version(other)),
            None => return Err(FileError::NoExport),
        }
        match self.line(text)? {
            ExportLine::Export(header) => Ok(header),
            _ => Err(FileError::NoExport),
        }
    }

    /// The first line: what the file is, and when and from what kind of store it was made.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many things of each kind have been read.
    #[must_use]
    pub fn counts(&self) -> MovedCounts {
        self.counts
    }

    /// Reads the next line. Returns its content, and how many bytes it has without its end of line. `None` at
    /// the end of a file that is whole.
    ///
    /// # Errors
    /// [`FileError::Io`] if the file cannot be read, [`FileError::Damaged`] if a line is damaged or the lines
    /// are not those that were written, [`FileError::Truncated`] if the last line is missing. The caller must
    /// not read on after an error.
    pub fn read(&mut self) -> Result<Option<(Item, usize)>, FileError> {
        if self.is_ended {
            return Ok(None);
        }
        let text = self.text()?;
        let line = self.line(&text)?;
        if let ExportLine::End { counts, sha256 } = line {
            self.end(counts, &sha256)?;
            return Ok(None);
        }
        self.take_in(&text);
        self.counts.add(&line);
        let item = match line.kept().map_err(|why| self.damaged(why))? {
            Ok(kept) => Item::Kept(kept),
            Err(ExportLine::Message(message)) => {
                let readable = message.envelope();
                readable.map_err(|why| self.damaged(why.to_string()))?;
                Item::Message(message)
            }
            Err(_) => return Err(self.damaged("it is a second first line")),
        };
        Ok(Some((item, text.len())))
    }

    fn take_in(&mut self, text: &str) {
        self.sum.update(text.as_bytes());
        self.sum.update(b"\n");
    }

    fn end(&mut self, counts: MovedCounts, sha256: &str) -> Result<(), FileError> {
        if counts != self.counts || sha256 != hex(&self.sum.clone().finalize()) {
            return Err(self.damaged("the lines before it are not those that were written"));
        }
        let mut more = [0];
        if self.from.read(&mut more)? > 0 {
            return Err(
                self.damaged("this line must be the last of the file, but more lines follow it")
            );
        }
        self.is_ended = true;
        Ok(())
    }

    fn damaged(&self, why: impl Into<String>) -> FileError {
        FileError::Damaged {
            line: self.lines,
            why: why.into(),
        }
    }

    /// The next line without its end.
    fn text(&mut self) -> Result<String, FileError> {
        let mut bytes = Vec::new();
        let mut bounded = (&mut self.from).take(MAX_LINE_BYTES + 1);
        bounded.read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Err(FileError::Truncated(self.lines));
        }
        self.lines += 1;
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(self.damaged("it is longer than a line may be"));
        }
        if bytes.last() != Some(&b'\n') {
            return Err(FileError::Truncated(self.lines - 1));
        }
        bytes.pop();
        String::from_utf8(bytes).map_err(|_| self.damaged("it is not UTF-8"))
    }

    /// A line's content, checked against its checksum.
    fn line(&self, text: &str) -> Result<ExportLine, FileError> {
        let parts = text.strip_prefix(BEFORE).and_then(|rest| {
            let (sum, rest) = rest.split_at_checked(DIGITS)?;
            let sum = u32::from_str_radix(sum, 16).ok()?;
            Some((sum, rest.strip_prefix(BETWEEN)?.strip_suffix('}')?))
        });
        let (sum, content) = parts.ok_or_else(|| self.damaged("it has not the form of a line"))?;
        if sum != checksum(self.lines, content) {
            return Err(self.damaged("it does not fit its checksum"));
        }
        serde_json::from_str(content).map_err(|e| self.damaged(e.to_string()))
    }
}
