//go:build linux

package test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// hostileSenders is a server that receives values from misbehaving senders of the test. It takes values of Zabbix's
// senders and samples of remote write.
type hostileSenders struct {
	*hostileAgents
	zabbix string // address
	token  string // of remote write
	client *http.Client
}

// newHostileSenders starts a server for misbehaving senders of values.
func newHostileSenders(t *testing.T) *hostileSenders {
	t.Helper()
	h := &hostileSenders{zabbix: harness.ReservePort(t), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	h.hostileAgents = newHostileAgents(t, 3, nil, "--zabbix-listen", h.zabbix)
	h.Login()
	for _, namespace := range []string{"default", "load"} { // load has the nodes
		h.Apply("{kind: Namespace, metadata: {name: " + namespace + "}, spec: {zabbixFrom: [127.0.0.1]}}")
	}
	h.token = strings.TrimSpace(h.CLI("auth", "token", "create", "--role", "remote-write", "-m", "samples"))
	return h
}

// sendRemoteWrite sends a remote-write request with a token, and returns the HTTP status and body.
func (h *hostileSenders) sendRemoteWrite(token, encoding string, body io.Reader) (int, string) {
	r := testenv.Value(http.NewRequestWithContext(h.t.Context(), http.MethodPost, "https://"+h.Listen+"/prometheus/api/v1/write", body))(h.t)
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", encoding)
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := h.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, string(text)
}

// zabbixMessage returns a Zabbix frame, in whose header a test can state false lengths.
func zabbixMessage(flags byte, size, plain uint64, payload []byte) []byte {
	b := append([]byte("ZBXD"), flags)
	if flags&4 != 0 {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, size), plain)
	} else {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, uint32(size)), uint32(plain))
	}
	return append(b, payload...)
}

// sendZabbixFrame sends a Zabbix frame to the server's listener for zabbix_sender, and returns the answer.
func (h *hostileSenders) sendZabbixFrame(frame []byte) string {
	nc, err := net.Dial("tcp", h.zabbix)
	if err != nil {
		return err.Error()
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = nc.Write(frame) }()
	text, _ := io.ReadAll(io.LimitReader(nc, 1<<16))
	if len(text) < 13 || text[4]&2 == 0 {
		return string(text)
	}
	header := 13
	if text[4]&4 != 0 {
		header = 21
	}
	z, err := zlib.NewReader(bytes.NewReader(text[header:]))
	if err != nil {
		return err.Error()
	}
	plain, _ := io.ReadAll(z)
	return string(plain)
}

// TestDecompressionBombsAreRefused sends small compressed bodies with huge contents, and expects refusals with
// a reason. It sends many at once to each listener that takes compressed values; another agent is not
// disturbed, and the server's memory stays bounded.
func TestDecompressionBombsAreRefused(t *testing.T) {
	h := newHostileSenders(t)
	unharmed, before := h.startServiceCheck(), peakMemory(t, h.PID())
	zeros := make([]byte, 64<<20)
	var deflated, zipped bytes.Buffer
	z := zlib.NewWriter(&deflated)
	testenv.Value(z.Write(zeros))(t)
	testenv.NoError(t, z.Close())
	g := gzip.NewWriter(&zipped)
	testenv.Value(g.Write(zeros))(t)
	testenv.NoError(t, g.Close())
	bomb := deflated.Bytes()
	size := uint64(len(bomb))
	const most = 16 << 20
	frames := map[string][]byte{
		"does not have the 16777216 bytes":   zabbixMessage(3, size, most, bomb),
		"67108864 bytes, the limit is":       zabbixMessage(3, size, 64<<20, bomb),
		"1099511627776 bytes, the limit is":  zabbixMessage(5, 1<<40, 0, nil),
		"cannot decompress the message":      zabbixMessage(7, most, most, zeros[:most]),
		"18446744073709551615 bytes, the li": zabbixMessage(7, 1<<64-1, 1<<64-1, bomb),
	}
	writes := []struct {
		encoding string
		body     []byte
		code     int
		reason   string
	}{
		{"snappy", snappy.Encode(nil, zeros[:32<<20]), http.StatusUnprocessableEntity, "protobuf"},
		{"snappy", snappy.Encode(nil, zeros), http.StatusRequestEntityTooLarge, "larger than the limit"},
		{"snappy", append(binary.AppendUvarint(nil, 32<<20), 0xfe), http.StatusUnprocessableEntity, "uncompress"},
		{"snappy", binary.AppendUvarint(nil, 1<<62), http.StatusUnprocessableEntity, "uncompress"},
		{"gzip", zipped.Bytes(), http.StatusUnprocessableEntity, "neither remote write"},
	}
	var sending sync.WaitGroup
	for range 6 {
		for want, frame := range frames {
			sending.Go(func() {
				if text := h.sendZabbixFrame(frame); !strings.Contains(text, want) && !strings.Contains(text, "too many large requests") && text != "" { // a connection that is refused without being read may be reset
					t.Errorf("a frame of %d bytes: %q, want %q", len(frame), text, want)
				}
			})
		}
		for _, c := range writes {
			sending.Go(func() {
				code, text := h.sendRemoteWrite(h.token, c.encoding, bytes.NewReader(c.body))
				if code != c.code && code != http.StatusTooManyRequests && code != http.StatusServiceUnavailable || code == c.code && !strings.Contains(text, c.reason) {
					t.Errorf("%d bytes of %s: %d %s, want %d %s", len(c.body), c.encoding, code, text, c.code, c.reason)
				}
			})
		}
	}
	sending.Wait()
	for want, frame := range frames {
		if text := h.sendZabbixFrame(frame); !strings.Contains(text, want) {
			t.Errorf("alone: %q, want %q", text, want)
		}
	}
	grown := (peakMemory(t, h.PID()) - before) >> 10
	t.Logf("the server had at most %d MiB more", grown)
	assert(t, grown < 700, "the server had %d MiB more than before", grown)
	assert(t, h.Metric("muster_zabbix_requests_total", "malformed") >= 5, "refused frames were not counted")
	unharmed(10*time.Second, 700)
}

// TestSlowSendersDelayNoOtherValues sends only one byte a second to each listener for values, and expects
// punctual other values.
func TestSlowSendersDelayNoOtherValues(t *testing.T) {
	h := newHostileSenders(t)
	h.Apply("{kind: Template, metadata: {name: trap, namespace: load}, spec: {targets: {groups: [all]}, items: [{key: trap.text, type: text, trapper: true}]}}")
	unharmed := h.startServiceCheck()
	ctx, cancel := context.WithCancel(t.Context())
	var dripping sync.WaitGroup
	defer dripping.Wait()
	defer cancel()
	drip := func(w io.WriteCloser, text string) {
		dripping.Go(func() {
			defer w.Close()
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for i := range len(text) {
				if _, err := io.WriteString(w, text[i:i+1]); err != nil {
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for range 20 {
		drip(testenv.Value(net.Dial("tcp", h.zabbix))(t), string(zabbixMessage(1, 1000, 0, nil)))
		nc := testenv.Value(net.Dial("tcp", h.zabbix))(t)
		testenv.Value(nc.Write(zabbixMessage(3, 16<<20, 16<<20, []byte("x"))))(t) // it announces all that a request may have
		drip(nc, strings.Repeat("y", 1000))
		r, w := io.Pipe()
		dripping.Go(func() { h.sendRemoteWrite(h.token, "snappy", r) })
		drip(w, strings.Repeat("y", 1000))
	}
	other := strings.TrimSpace(h.CLI("auth", "token", "create", "--role", "remote-write", "-m", "samples of another"))
	value := fmt.Sprintf(`{"request":"sender data","data":[{"host":%q,"key":"trap.text","value":"fine %s"}]}`, harness.NodeName(1), strings.Repeat("words ", 10_000))
	for range 5 {
		began := time.Now()
		text := h.sendZabbixFrame(zabbixMessage(1, uint64(len(value)), 0, []byte(value)))
		took := time.Since(began)
		assert(t, strings.Contains(text, "processed: 1") && took < 10*time.Second, "%q after %s", text, took)
		code, text := h.sendRemoteWrite(other, "snappy", bytes.NewReader(snappy.Encode(nil, nil)))
		assert(t, code/100 == 2, "an empty request: %d %s", code, text)
	}
	unharmed(10*time.Second, 200)
}

// TestLongTextsAreRefused sends a text of 64 MB in three ways, and expects a refusal with a reason. It comes as an
// item of an agent, from a sender, and in a resource; values of other items arrive meanwhile.
func TestLongTextsAreRefused(t *testing.T) {
	h := newHostileSenders(t)
	unharmed, before := h.startServiceCheck(), peakMemory(t, h.PID())
	long := bytes.Repeat([]byte("word "), 64<<20/5+1)
	file := filepath.Join(t.TempDir(), "long")
	testenv.NoError(t, os.WriteFile(file, append(long, "\nlast line\n"...), 0o644))
	a := h.StartAgent("reader")
	h.Apply(fmt.Sprintf(`
kind: Template
metadata: {name: texts}
spec:
  targets: {groups: [all]}
  items:
    - {key: agent.ping, interval: 1s}
    - {key: "vfs.file.contents[%[1]s]", type: text, interval: 1s}
    - {key: "vfs.file.regexp[%[1]s,^last]", type: text, interval: 1s}
    - {key: "log[%[1]s]", type: log, interval: 1s}
    - {key: trap.text, type: text, trapper: true}
`, file))
	h.AwaitOutput("get items --node reader", "the file has over 64 KiB", "a line of the file has over 1024 KiB")
	h.AwaitOutput("get texts reader/log["+file+"]", "word word", "last line")
	for size, want := range map[int]string{
		64 << 20: "the limit is 16777216",
		1 << 20:  "trap.text: the value is too long",
	} {
		value := fmt.Sprintf(`{"request":"sender data","data":[{"host":"reader","key":"trap.text","value":%q}]}`, long[:size])
		text := h.sendZabbixFrame(zabbixMessage(1, uint64(len(value)), 0, []byte(value)))
		assert(t, strings.Contains(text, want), "a text of %d bytes by a sender: %q, want %q", size, text, want)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	testenv.NoError(t, os.WriteFile(large, append([]byte("{kind: Property, metadata: {name: large}, spec: {property: large, scope: global, value: \""), append(long, "\"}}\n"...)...), 0o644))
	refused := harness.Run(t, h.Env(), "apply", "-f", large)
	assert(t, refused.Code != 0 && strings.Contains(refused.Errors, "is larger than 32MiB"), "apply of 64 MB: code %d, %.300s", refused.Code, refused.Errors)
	ping := func() string {
		return harness.Run(t, h.Env(), "query", `count_over_time(agent_ping{node="reader"}[5s])>2`).Out
	}
	harness.Until(t, 30*time.Second, "values of other items", func() (string, bool) { out := ping(); return out, strings.Contains(out, "reader") })
	grown := (peakMemory(t, h.PID()) - before) >> 10
	assert(t, grown < 300, "the server had %d MiB more than before", grown)
	assert(t, peakMemory(t, a.PID()) < 100<<10, "the agent had %d kB", peakMemory(t, a.PID()))
	assert(t, h.Metric("muster_zabbix_values_total", "too_long") == 1, "the refused value was not counted")
	unharmed(10*time.Second, 300)
}

// TestEndlessScriptsDelayNoOtherItem applies Templates with endless preprocessing scripts, and expects all other items to
// work. Each fault is reported with its reason; the Template with most values of the server is named, and values and
// problems of other items come in time.
func TestEndlessScriptsDelayNoOtherItem(t *testing.T) {
	h := newHostileSenders(t)
	h.Apply(`
kind: Template
metadata: {name: hostile, namespace: load}
spec:
  targets: {nodes: [` + harness.NodeName(1) + `]}
  items:
    - {key: loop, type: text, trapper: true, steps: [{javascript: "while (true) {}"}]}
    - {key: grow, type: text, trapper: true, steps: [{javascript: "var s = value; while (true) s += s"}]}
    - {key: explode, type: text, trapper: true, steps: [{regex: ["^(?=(a+)+$)a", "\\0"]}]}
    - {key: hot, trapper: true, steps: [{javascript: "var x = 0; for (var i = 0; i < 100; i++) x += i; return value"}]}
---
kind: Template
metadata: {name: calm, namespace: load}
spec:
  targets: {nodes: [` + harness.NodeName(2) + `]}
  items: [{key: trap.n, trapper: true}]
  triggers: [{name: high, expression: "last(//trap.n)>5"}]
`)
	unharmed := h.startServiceCheck()
	send := func(host string, keys ...string) string {
		var rows []string
		for _, key := range keys {
			name, value, _ := strings.Cut(key, "=")
			rows = append(rows, fmt.Sprintf(`{"host":%q,"key":%q,"value":%q}`, host, name, value))
		}
		text := `{"request":"sender data","data":[` + strings.Join(rows, ",") + `]}`
		return h.sendZabbixFrame(zabbixMessage(1, uint64(len(text)), 0, []byte(text)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	defer flooding.Wait()
	defer cancel()
	flooding.Go(func() {
		hot := make([]string, 200)
		for i := range hot {
			hot[i] = fmt.Sprint("hot=", i)
		}
		for ctx.Err() == nil {
			send(harness.NodeName(1), append(hot, "loop=x", "grow=x", "explode="+strings.Repeat("a", 40)+"b")...)
		}
	})
	h.AwaitOutput("get items -n load --node "+harness.NodeName(1), "explode", "loop", "grow", "unsupported: step 1. Failed")
	h.AwaitOutput("status", "per second; most time: hostile:")
	for _, step := range [][2]string{{"9", "CRITICAL"}, {"1", "OK"}, {"7", "CRITICAL"}} {
		began := time.Now()
		text := send(harness.NodeName(2), "trap.n="+step[0])
		assert(t, strings.Contains(text, "processed: 1"), "%q", text)
		h.AwaitOutput("why load/"+harness.NodeName(2)+"/calm:high", step[1]+", 1 in a row")
		assert(t, time.Since(began) < time.Minute, "a problem of another item after %s", time.Since(began))
	}
	cancel()
	unharmed(10*time.Second, 300)
}
