package react

import (
	"context"
	"time"
)

// underway is for how long messages that were begun may go on. A stop lets them end, and what came
// of them be recorded: else a command is killed, and what somebody has taken comes again at the next
// start.
type underway struct {
	sending   context.Context // ends a while after the server is told to stop
	recording context.Context // ends a while after that
	end       func()
}

// windingUp begins with ctx's end to cut off what is under way.
func (d *deliverer) windingUp(ctx context.Context) underway {
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
			timer := time.NewTimer(d.opts.windUp)
			select {
			case <-timer.C:
			case <-ended.Done():
			}
			timer.Stop()
			end()
		}
	}()
	return underway{sending, recording, done}
}
