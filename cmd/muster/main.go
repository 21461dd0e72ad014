// Command muster is the whole of Muster in one binary: the command line and, on
// Linux, the server.
package main

//go:generate go test . -run TestReferencePageIsUpToDate -update

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // cron in any zone, also where the machine has no zone files

	"github.com/muster-fleet/muster/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := cli.Main(ctx, cli.System(), extras()...)
	stop()
	os.Exit(code)
}
