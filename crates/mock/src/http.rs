//! HTTP/1.1 as far as clients of model services need it.

use crate::{Fault, Seen};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A connection.
pub(crate) struct Call {
    pub(crate) reader: BufReader<TcpStream>,
    pub(crate) writer: TcpStream,
}

impl Call {
    pub(crate) fn new(stream: TcpStream) -> Result<Self> {
        Ok(Self {
            writer: stream.try_clone()?,
            reader: BufReader::new(stream),
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_string())
    }

    /// Reads one request.
    pub(crate) fn read(&mut self, time: Instant, fault: Option<Fault>) -> Result<Seen> {
        let first = self.line()?;
        let mut words = first.split(' ').map(str::to_string);
        let (method, path) = words.next().zip(words.next()).ok_or(ErrorKind::InvalidData)?;
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
            headers.insert(name.to_lowercase(), value.trim().to_string());
        }
        if headers.get("expect").is_some_and(|value| value == "100-continue") {
            self.writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let length = headers.get("content-length").map_or(Ok(0), |length| length.parse());
        let mut body = vec![0; length.map_err(|_| Error::from(ErrorKind::InvalidData))?];
        self.reader.read_exact(&mut body)?;
        Ok(Seen {
            method,
            path,
            headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
            time,
            fault,
        })
    }

    /// Waits until the client or the server closes the connection.
    pub(crate) fn hang(&mut self) -> Result<()> {
        std::io::copy(&mut self.reader, &mut std::io::sink()).map(|_| ())
    }
}

/// The head of a reply with a body of `length` bytes; chunks if that is `None`.
pub(crate) fn head(status: u16, more: &str, length: Option<usize>) -> String {
    let length = match length {
        Some(length) => format!("Content-Length: {length}"),
        None => "Transfer-Encoding: chunked".to_string(),
    };
    format!("HTTP/1.1 {status} Mock\r\nContent-Type: application/json\r\n{more}{length}\r\n\r\n")
}
