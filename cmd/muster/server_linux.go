//go:build linux && !noserver

package main

import "github.com/muster-fleet/muster/internal/cli"

// extras are the commands that need the server's engines.
func extras() []cli.Extra { return nil }
