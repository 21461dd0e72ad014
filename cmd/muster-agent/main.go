// Command muster-agent runs the agent alone, as `muster agent` does, in a small binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // cron in any zone, also where the machine has no zone files

	"github.com/muster-fleet/muster/internal/agent/agentcmd"
)

// main runs the program muster-agent and exits with its exit code.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	defer stop()
	os.Exit(agentcmd.Main(ctx, os.Args[1:], agentcmd.Env{Program: "muster-agent", Getenv: os.Getenv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
