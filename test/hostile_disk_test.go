//go:build linux

package test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Nodes that send long outputs as fast as they can neither fill the server's disk nor delay other nodes.
func TestNodeCannotFillDisk(t *testing.T) {
	testenv.Root(t)
	h := newHostile(t, 3, func(s *harness.Server) { mountSmallDisk(t, s, "400m") }, "--journal-reserve", "32MiB", "--snapshot-cycle", "3s")
	unharmed := h.watch()
	h.Client()
	for node := 1; node <= 2; node++ {
		a := h.startNeighbour(node, time.Millisecond)
		a.setOutputSize(240_000)
		a.flipStatus()
	}
	ends := time.Now().Add(20 * time.Second)
	harness.Until(t, 40*time.Second, "twenty seconds of attack", func() (string, bool) {
		why, ready := h.Ready()
		require(t, ready, "readyz says %q after the nodes sent %.0f MB", why, h.Metric("muster_session_bytes_received_total")/1e6)
		return "", time.Now().After(ends)
	})
	info := testenv.Value(os.Stat(filepath.Join(h.Data, "history.db")))(t)
	assert(t, info.Size() < 120<<20, "history.db has %d MiB", info.Size()>>20)
	h.Try("status").Expect(harness.AnyCode, "1048576 bytes per second; spec.limits.nodeBytesPerSec: muster edit namespace")
	unharmed(5*time.Second, 200)
}
