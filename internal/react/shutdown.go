package react

import (
	"context"
	"time"
)

// shutdown bounds the messages that are under way when the server stops. They may end and be recorded: else a
// command is killed, and a message that was taken comes again at the next start.
type shutdown struct {
	sending   context.Context // ends a while after the server is told to stop
	recording context.Context // ends a while after that
	end       func()
}

// newShutdown cuts off messages under way some time after ctx ends.
func (d *deliverer) newShutdown(ctx context.Context) shutdown {
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	recording, give := context.WithCancel(context.WithoutCancel(ctx))
	ended, done := context.WithCancel(recording)
	go func() {
		defer give()
		defer cut()
		select {
		case <-ctx.Done():
		case <-ended.Done():
			return
		}
		for _, end := range []func(){cut, give} {
			timer := time.NewTimer(d.shutdownWait)
			select {
			case <-timer.C:
			case <-ended.Done():
			}
			timer.Stop()
			end()
		}
	}()
	return shutdown{sending, recording, done}
}
