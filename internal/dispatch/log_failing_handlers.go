package dispatch

import (
	"log/slog"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/history"
)

// failingHandlers has the handlers to which messages cannot be sent at present. The log so has one warning at the
// first failure and one line at the recovery.
type failingHandlers struct {
	mu        sync.Mutex
	byHandler map[history.HandlerRef]*failingHandler
}

// failingHandler is a handler to which the last messages could not be sent, with the first failure's time.
type failingHandler struct {
	since    time.Time
	messages map[int64]bool // ids of messages that failed and are tried again
}

// log notes the outcome of an attempt to send, and logs when a handler begins or stops failing.
func (f *failingHandlers) log(logger *slog.Logger, one *history.Delivery, a *history.Attempt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	handler := f.byHandler[one.Handler]
	if a.State == history.Delivered {
		if handler == nil {
			return
		}
		if delete(handler.messages, one.ID); len(handler.messages) == 0 {
			delete(f.byHandler, one.Handler)
			logger.Info("handler works again", "handler", one.Handler.Namespace+"/"+one.Handler.Name, "failed", model.TimeSpan(a.At.Sub(handler.since)))
		}
		return
	}
	if handler == nil {
		if handler = (&failingHandler{a.At, map[int64]bool{}}); f.byHandler == nil {
			f.byHandler = map[history.HandlerRef]*failingHandler{}
		}
		f.byHandler[one.Handler] = handler
		logger.Warn("handler fails: muster describe handler shows its messages", "handler", one.Handler.Namespace+"/"+one.Handler.Name, "err", a.Error)
	}
	if a.State == history.Pending {
		handler.messages[one.ID] = true
	} else {
		delete(handler.messages, one.ID)
	}
}
