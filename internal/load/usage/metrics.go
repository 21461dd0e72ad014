package usage

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/pause"
)

// Metrics returns the sums of a server's /metrics by name, or nil without an answer.
func Metrics(admin string) map[string]float64 {
	sums, _ := scrape(admin)
	return sums
}

// scrape reads a server's /metrics: sums by name, and depths of queues by queue.
func scrape(admin string) (sums, queues map[string]float64) {
	if admin == "" {
		return nil, nil
	}
	request, err := http.NewRequest(http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return nil, nil
	}
	request.Header.Set("Accept-Encoding", "identity") // compression would be half of the server's work for the page
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Do(request)
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	sums, queues = map[string]float64{}, map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "#") {
			continue
		}
		full, _, _ := strings.Cut(text, " ")
		name, labels, _ := strings.Cut(full, "{")
		v, err := strconv.ParseFloat(text[strings.LastIndexByte(text, ' ')+1:], 64)
		if err != nil || strings.HasSuffix(name, "_bucket") {
			continue
		}
		sums[name] += v
		if _, queue, ok := strings.Cut(labels, `queue="`); ok && name == "muster_queue_depth" {
			queue, _, _ = strings.Cut(queue, `"`)
			queues[queue] = v
		}
	}
	return sums, queues
}

// HeapInUse returns the bytes of a server's heap in use, after a garbage collection.
func HeapInUse(ctx context.Context, admin string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "# HeapAlloc = ")
	number, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(number, 64)
}

// Meter reads a server's metrics every second. Its readers do not wait for a stopped server.
type Meter struct {
	Admin string // address; empty: no metrics
	mu    sync.Mutex
	last  Metered
}

// Metered has the last metrics.
type Metered struct {
	At           time.Time
	Sums, Queues map[string]float64
}

// Run reads metrics until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	for m.Admin != "" && ctx.Err() == nil {
		began := time.Now()
		sums, queues := scrape(m.Admin)
		if sums != nil {
			m.mu.Lock()
			m.last = Metered{time.Now(), sums, queues}
			m.mu.Unlock()
		}
		pause.For(ctx, time.Second-time.Since(began))
	}
}

// Read returns the last metrics.
func (m *Meter) Read() Metered {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// counter reports whether a metric grows until the server restarts. Histograms muster_agents_… are of connected agents,
// and shrink as agents leave.
func counter(name string) bool {
	if strings.HasPrefix(name, "muster_agents_") {
		return false
	}
	return strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
}
