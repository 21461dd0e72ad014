package load

import "context"

// Control acts on the process of the server under test, for faults. internal/load/subject
// has it for a server of the run's own.
type Control interface {
	Restart(ctx context.Context) error // planned; returns when it is ready again
	Kill(ctx context.Context) error    // kill -9, and started again; returns when it is ready again
	Pause() error                      // SIGSTOP …
	Continue() error                   // … and SIGCONT
}
