//go:build !linux || noserver

package main

import "github.com/muster-fleet/muster/internal/cli"

// extras: no server in this build, only the command line.
func extras() []cli.Extra { return []cli.Extra{agentExtra()} }
