package core

import (
	"errors"
	"io"
	"net"
	"os"

	"github.com/muster-fleet/muster/internal/wsconn"
)

// ReadCause names the reason why reading from a connection failed, for metrics and logs.
func ReadCause(err error) string {
	var closed *wsconn.CloseError
	switch {
	case errors.Is(err, wsconn.ErrTooLarge):
		return "too_large"
	case errors.Is(err, wsconn.ErrProtocol):
		return "websocket"
	case errors.As(err, &closed):
		return "closed"
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
		return "cut" // by the server
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "eof"
	}
	return "network"
}
