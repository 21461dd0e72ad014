//go:build !linux || noserver

package main

import "github.com/muster-fleet/muster/internal/cli"

// extras returns no server commands: this build is the command line only.
func extras() []cli.Extra { return []cli.Extra{agentExtra()} }
