//go:build linux

package test

import (
	"os"
	"testing"

	"github.com/muster-fleet/muster/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
