//! A connection with a time limit for writes, so that a client that does not read the response cannot keep it open.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Sleep, sleep};

/// Time in which a client must read part of the response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug)]
pub(super) struct Patient<C> {
    connection: C,
    /// The timeout of the write that waits, if any.
    until: Option<Pin<Box<Sleep>>>,
}

impl<C: Write + Unpin> Patient<C> {
    pub(super) fn new(connection: C) -> Self {
        Self { connection, until: None }
    }

    /// Continues a write, which fails after the timeout.
    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut C>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let result = write(Pin::new(&mut self.connection), context);
        if result.is_ready() {
            self.until = None;
            return result;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(TIMEOUT)));
        if until.as_mut().poll(context).is_ready() { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { result }
    }
}

impl<C: Read + Unpin> Read for Patient<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, buffer)
    }
}

impl<C: Write + Unpin> Write for Patient<C> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, text: &[u8]) -> Poll<io::Result<usize>> {
        self.write(context, |connection, context| connection.poll_write(context, text))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, C::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, C::poll_shutdown)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        texts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |connection, context| connection.poll_write_vectored(context, texts))
    }
}
