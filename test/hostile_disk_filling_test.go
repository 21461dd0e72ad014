//go:build linux

package test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws/wsutil"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// byteBudget is the default budget of a node or sender, in bytes per second; burstSeconds is the content of its full bucket.
const (
	byteBudget   = 1 << 20
	burstSeconds = 10
)

// newSmallDiskServer starts a server with n nodes on a disk of 400 MB. The agents of the nodes try to fill the
// disk.
func newSmallDiskServer(t *testing.T, nodes int, args ...string) *hostileAgents {
	t.Helper()
	testenv.SkipUnlessRoot(t)
	prepare := func(s *harness.Server) { mountSmallDisk(t, s, "400m") }
	return newHostileAgents(t, nodes, prepare, append(args, "--journal-reserve", "32MiB", "--snapshot-cycle", "3s")...)
}

// expectReadyDuringFlood waits twenty seconds during a flood, and expects the server to stay ready. The server
// must accept no more bytes than its limit, and keep its databases small.
func (h *hostileAgents) expectReadyDuringFlood(senders int, accepted func() float64) {
	h.t.Helper()
	began, before := time.Now(), accepted()
	harness.Until(h.t, time.Minute, "twenty seconds of attack", func() (string, bool) {
		why, ready := h.Ready()
		require(h.t, ready, "readyz says %q after the senders sent %.0f MB", why, (accepted()-before)/1e6)
		return "", time.Since(began) > 20*time.Second
	})
	got, took := accepted()-before, time.Since(began)
	most := float64(senders*byteBudget) * (took.Seconds() + burstSeconds + 5) // five seconds: the last requests are accepted whole
	h.t.Logf("%.1f MB were accepted in %s", got/1e6, took.Round(time.Second))
	assert(h.t, got > 0 && got <= most, "the server accepted %.1f MB in %s from %d senders", got/1e6, took, senders)
	for pattern, most := range map[string]int64{"history.db*": 120 << 20, "intent.db*": 40 << 20, "snapshots/*": 60 << 20} {
		files, _ := filepath.Glob(filepath.Join(h.Data, pattern))
		size := int64(0)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				size += info.Size()
			}
		}
		h.t.Logf("%s: %d MiB", pattern, size>>20)
		assert(h.t, size < most, "%s has %d MiB", pattern, size>>20)
	}
}

// receivedBytes returns the number of bytes that the server received in nodes' sessions.
func (h *hostileAgents) receivedBytes() float64 {
	return h.Metric("muster_session_bytes_received_total")
}

// limitOfBytes is the text of status about a node or sender at its budget of bytes, without the namespace.
const limitOfBytes = "1048576 bytes per second; spec.limits.nodeBytesPerSec: muster edit namespace "

// limitOfValues is the same about a node that sends too many values.
const limitOfValues = "10000 values per second; spec.limits.nodeValuesPerSec: muster edit namespace "

// flood calls a send function in the background, again and again without a pause. It stops when the function
// fails or the test ends.
func flood(t *testing.T, send func(ctx context.Context, n int) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			if err := send(ctx, n); err != nil {
				if ctx.Err() == nil {
					t.Logf("the attack ends: %v", err)
				}
				return
			}
		}
	}()
}

// Nodes that send long outputs as fast as possible do not fill the server's disk. They also do not delay other nodes.
func TestNodeCannotFillDisk(t *testing.T) {
	h := newSmallDiskServer(t, 3)
	unharmed := h.startServiceCheck()
	h.Client()
	for node := 1; node <= 2; node++ {
		a := h.startWellBehavedAgent(node, time.Millisecond)
		a.setOutputSize(240_000)
		a.flipStatus()
	}
	h.expectReadyDuringFlood(2, h.receivedBytes)
	h.Try("status").Expect(harness.AnyCode, limitOfBytes+"load")
	unharmed(5*time.Second, 200)
}

// TestNoisyNodeRemovesNoOtherHistory changes one node's status constantly, and expects the history of other
// nodes to remain. The outputs fill the size limit of history many times over. History removes its rows, keeps
// all rows of a quiet node, and names the noisy one.
func TestNoisyNodeRemovesNoOtherHistory(t *testing.T) {
	for name, args := range map[string]func(t *testing.T) []string{
		"sqlite":     func(*testing.T) []string { return nil },
		"postgresql": func(t *testing.T) []string { return []string{"--history-db", pgtest.Start(t).Database(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostileAgents(t, 2, nil, append(args(t), "--history-budget", "64MiB", "--node-byte-rate", "16MiB")...)
			api := h.Client()
			changes := func() (n int) {
				page := testenv.Value(api.Events.Entries(t.Context(), v1.HistoryQuery{Namespace: simulated.Namespace, Node: harness.NodeName(0), Limit: 1000}))(t)
				for _, e := range page.Items {
					if e.Check != model.KeepaliveCheckName {
						n++
					}
				}
				return n
			}
			quiet := h.startWellBehavedAgent(0, 50*time.Millisecond)
			quiet.flipStatus()
			harness.Until(t, time.Minute, "a hundred changes of the quiet node", func() (string, bool) { return "", changes() >= 100 })
			quiet.expectFast(time.Minute)
			awaitHistory(t, api)
			before := changes()
			noisy := h.startWellBehavedAgent(1, time.Millisecond)
			noisy.setOutputSize(240_000)
			noisy.flipStatus()
			const evicted = "muster_history_evicted_total"
			harness.Until(t, 3*time.Minute, "the removal of rows of the noisy node", func() (string, bool) {
				return fmt.Sprint(h.Metric(evicted), " rows"), h.Metric(evicted) > 2000
			})
			after := changes() // the last ones may have been on their way to history
			assert(t, after >= before, "the quiet node has %d changes of %d", after, before)
			assert(t, h.Metric("muster_history_bytes") <= 72<<20, "history has %.0f bytes", h.Metric("muster_history_bytes"))
			harness.Until(t, time.Minute, "the noisy node in status", func() (string, bool) {
				said := h.Try("status")
				return said.Out, strings.Contains(said.Out, "mostly of node load/"+harness.NodeName(1))
			})
		})
	}
}

// A Sensu agent with long outputs and changing entities does not fill the server's disk. Its statuses change, and its
// keepalives have an entity that always differs; other agents are not delayed.
func TestSensuAgentCannotFillDisk(t *testing.T) {
	listen := harness.ReservePort(t)
	h := newSmallDiskServer(t, 1, "--sensu-listen", listen, "--sensu-tls", "off")
	unharmed := h.startServiceCheck()
	api := h.Client()
	h.CLI("auth", "user", "create", "agent", "--role", "agent", "--password-file", tempFile(t, "password", "P@ssw0rd!"))
	h.Apply("{kind: Namespace, metadata: {name: default}, spec: {limits: {passivePerNode: 50}}}")
	conn := dialSensuAgent(t, listen, "loud")
	output, labels := strings.Repeat("all is well ", 20_000), strings.Repeat("x", 2000)
	flood(t, func(_ context.Context, n int) error {
		check := fmt.Sprintf(`{"metadata":{"name":"check%d","namespace":"default"},"status":%d,"output":"%d %s","interval":1}`, n%50, n/50%3, n, output)
		if err := wsutil.WriteClientBinary(conn, sensuMessage("event", "loud", "{}", check)); err != nil {
			return err
		}
		list := fmt.Sprintf(`{"n":"%d"`, n)
		for i := range 14 {
			list += fmt.Sprintf(`,"l%d":"%s"`, i, labels)
		}
		return wsutil.WriteClientBinary(conn, sensuMessage("keepalive", "loud", list+"}", sensuKeepalive))
	})
	h.expectReadyDuringFlood(1, func() float64 { return h.Metric("muster_sensu_bytes_received_total") })
	h.Try("status").Expect(harness.AnyCode, limitOfBytes+"default")
	say, _ := connectSensuAgent(t, listen, "quiet")
	say("event", `{"metadata":{"name":"backup","namespace":"default"},"status":2,"output":"no space","interval":1}`)
	awaitEvent(t, api, "quiet", "backup", "another agent's event", func(e v1.Event) bool { return e.Output == "no space" })
	unharmed(5*time.Second, 200)
}

// A sender of alerts with long, changing annotations does not fill the server's disk. It also does not delay other
// senders.
func TestAlertSenderCannotFillDisk(t *testing.T) {
	h := newSmallDiskServer(t, 1)
	unharmed := h.startServiceCheck()
	api := h.Client()
	token := func(name string) string {
		return strings.TrimSpace(h.CLI("auth", "token", "create", "--user", name, "--role", "alerts", "-m", "alerts"))
	}
	loud, quiet := token("loud"), token("quiet")
	const path = "/alertmanager/api/v2/alerts"
	body := func(n int) string {
		var b strings.Builder
		for i := range 15 {
			fmt.Fprintf(&b, `,{"labels":{"alertname":"Alert%d","instance":"web%d","severity":"%s"},"annotations":{"summary":"%d %s"},"endsAt":%q}`, i, n%20,
				[]string{"warning", "critical"}[n%2], n, strings.Repeat("x", 16_000), time.Now().Add(time.Duration(n%3-1)*time.Hour).Format(time.RFC3339))
		}
		return "[" + b.String()[1:] + "]"
	}
	var accepted, refused atomic.Int64
	for sender := range 2 {
		flood(t, func(ctx context.Context, n int) error {
			text := body(2*n + sender)
			r := testenv.Value(http.NewRequestWithContext(ctx, http.MethodPost, "https://"+h.Listen+path, strings.NewReader(text)))(t)
			code, answer, err := trySendRequest(h.Server, r, "", loud)
			switch {
			case err != nil:
				return err
			case code == http.StatusOK:
				accepted.Add(int64(len(text)))
			case code == http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("status %d: %s", code, answer)
			}
			return nil
		})
	}
	h.expectReadyDuringFlood(1, func() float64 { return float64(accepted.Load()) })
	// A machine that is too slow for the senders to empty their bucket refuses none.
	if refused.Load() > 0 || accepted.Load() > byteBudget*(20+burstSeconds)*9/10 {
		assert(t, refused.Load() > 0, "no request was refused")
		h.Try("status").Expect(harness.AnyCode, limitOfBytes+"default")
	}
	code, answer := postAlerts(t, h.Server, path, "", quiet, fmt.Sprintf(`[{"labels":{"alertname":"Backup","instance":"db1"},"annotations":{"summary":"no space"},"endsAt":%q}]`, time.Now().Add(time.Hour).Format(time.RFC3339)))
	expectEqual(t, "another sender: "+answer, code, http.StatusOK)
	awaitEvent(t, api, "db1", "backup", "another sender's alert", func(e v1.Event) bool { return strings.Contains(e.Output, "no space") })
	unharmed(5*time.Second, 200)
}

// TestChangingFactsCannotFillDisk changes long facts and labels of an agent constantly, and expects bounded
// disk use. It also does not delay other nodes.
func TestChangingFactsCannotFillDisk(t *testing.T) {
	h := newSmallDiskServer(t, 2)
	unharmed := h.startServiceCheck()
	h.Client()
	a := h.sendHello(1)
	testenv.NoError(t, a.SetDeadline(time.Now().Add(5*time.Minute)))
	flood(t, func(_ context.Context, n int) error {
		m := wire.Facts{Facts: map[string]string{"n": fmt.Sprint(n)}, Labels: map[string]string{"n": fmt.Sprint(n)}}
		for i := range 14 << (n % 2 * 4) { // every second report is over its limit
			m.Facts[fmt.Sprint("fact", i)] = strings.Repeat("x", 2000)
		}
		for i := range 100 {
			m.Labels[fmt.Sprint("label", i)] = strings.Repeat("y", 200)
		}
		return a.trySend(wire.AppendFacts(nil, &m))
	})
	h.expectReadyDuringFlood(1, h.receivedBytes)
	h.Try("status").Expect(harness.AnyCode, limitOfBytes+"load")
	unharmed(5*time.Second, 200)
}

// textTemplate has an item of type text whose values triggers keep, and one of type unsigned whose trigger each value flips.
const textTemplate = `
kind: Template
metadata: {name: texts, namespace: load}
spec:
  targets: {groups: [all]}
  items:
    - {key: "vfs.file.contents[/etc/motd]", type: text, interval: 1s}
    - {key: system.uptime, type: unsigned, interval: 1s}
  triggers:
    - {name: many texts, expression: "last(//vfs.file.contents[/etc/motd],#250)=last(//vfs.file.contents[/etc/motd],#2)"}
    - {name: first text, expression: "first(//vfs.file.contents[/etc/motd],1h)=last(//vfs.file.contents[/etc/motd])"}
    - {name: odd, expression: "last(//system.uptime)=1"}
`

// An agent with very long values or errors does not fill the server's disk and memory. Values that change triggers all
// the time are tried, too; other nodes are not delayed.
func TestItemValuesCannotFillDisk(t *testing.T) {
	text := strings.Repeat("all is well ", 70_000)
	many := func(one func(i int) wire.BlockValue) (times []int64, list []wire.BlockValue) {
		for i := range 100_000 {
			v := one(i)
			v.Row = uint32(i)
			times, list = append(times, int64(i)), append(list, v)
		}
		return times, list
	}
	const motd, uptime = 1, 0 // positions of the items, which are sorted by key
	for _, c := range []struct {
		name, limit string
		values      func(n uint64) (times []int64, list []wire.BlockValue)
	}{
		{"texts", limitOfBytes, func(n uint64) ([]int64, []wire.BlockValue) {
			return []int64{0}, []wire.BlockValue{{Position: motd, Value: item.FromText(fmt.Sprint(n, text))}}
		}},
		{"reasons", limitOfBytes, func(n uint64) ([]int64, []wire.BlockValue) {
			return []int64{0}, []wire.BlockValue{{Position: motd, Value: item.FromText(fmt.Sprint(n, text)), Unsupported: true}}
		}},
		{"short texts", limitOfValues, func(uint64) ([]int64, []wire.BlockValue) {
			return many(func(i int) wire.BlockValue {
				return wire.BlockValue{Position: motd, Value: item.FromText(fmt.Sprint(i % 9))}
			})
		}},
		{"changes", limitOfValues, func(uint64) ([]int64, []wire.BlockValue) {
			return many(func(i int) wire.BlockValue {
				return wire.BlockValue{Position: uptime, Value: item.FromUnsigned(uint64(i) % 2)}
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newSmallDiskServer(t, 2)
			unharmed := h.startServiceCheck()
			h.Client()
			h.Apply(textTemplate)
			a := h.startWellBehavedAgent(1, time.Millisecond)
			a.sendValues(func(n uint64) *wire.ValueBlock {
				times, list := c.values(n)
				return &wire.ValueBlock{Rows: uint32(len(list)), Columns: wire.AppendColumns(nil, times, list)}
			})
			h.expectReadyDuringFlood(1, h.receivedBytes)
			h.Try("status").Expect(harness.AnyCode, c.limit+"load")
			unharmed(5*time.Second, 200)
		})
	}
}
