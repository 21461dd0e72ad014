package agent

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxScrapeBytes bounds the encoded samples of a scrape: a frame must have room for them.
const maxScrapeBytes = 512 << 10

// staleValue is the value by which Prometheus marks the end of a series.
var staleValue = math.Float64frombits(0x7ff0000000000002)

// encodeScrape encodes the series that a check scraped, with the labels of the check. Series that ended since the run before
// get a mark. Samples that do not fit beside `extra` bytes of further fields are left out with a reason: the result is then CRITICAL,
// and only the series about the scrape are sent.
func (c *checks) encodeScrape(x *check, scraped []model.Value, result *run.Result, extra int) []byte {
	if scraped == nil {
		return nil
	}
	var before []byte
	if last := x.state.scraped.Load(); last != nil {
		before = *last
	}
	block := encodeSamples(scraped, c.targetLabels(x), before)
	if most := min(maxScrapeBytes, c.maxResultBytes()-len(result.Output)-extra); len(block) > most {
		result.Status, result.Code = model.Critical, int(model.Critical)
		result.Output = fmt.Appendf(nil, "the samples of %d series have %d bytes, at most %d: choose some with keep or drop", len(scraped), len(block), most)
		about := scraped[len(scraped)-probe.ScrapeSeries:]
		about[0].Value = 0 // up
		block = encodeSamples(about, c.targetLabels(x), before)
		if len(block) > most {
			return nil
		}
	}
	x.state.scraped.Store(&block)
	return block
}

// targetLabels returns the labels of all series of a check's scrape. They are job, instance and the tags of metrics. An
// exporter on the node itself has the name of the node as instance.
func (c *checks) targetLabels(x *check) map[string]string {
	labels := map[string]string{"job": x.definition.Name}
	if address, err := url.Parse(x.command.Args["url"]); err == nil {
		host, port := address.Hostname(), address.Port()
		if port == "" {
			port = map[string]string{"https": "443"}[address.Scheme]
		}
		if port == "" {
			port = "80"
		}
		if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
			host = *c.agent.name.Load()
		}
		labels["instance"] = net.JoinHostPort(host, port)
	}
	maps.Copy(labels, x.command.Tags)
	return labels
}

// encodeSamples encodes scraped series as a block of samples. target has the labels that all series get; a label of the page
// with such a name, or with the name of a label of the server, is renamed as Prometheus does. before is the block of the
// scrape before: its series that are no longer there get a value that marks their end.
func encodeSamples(scraped []model.Value, target map[string]string, before []byte) []byte {
	var block wire.SampleBlock
	var labels []wire.SeriesLabel
	present := make(map[string]bool, len(scraped))
	for i := range scraped {
		v := &scraped[i]
		labels = append(labels[:0], wire.SeriesLabel{Name: "__name__", Value: v.Name})
		for name, value := range target {
			labels = append(labels, wire.SeriesLabel{Name: name, Value: value})
		}
		for name, value := range v.Tags {
			taken := func(other string) bool {
				_, isTarget := target[other]
				_, isOwn := v.Tags[other]
				return isTarget || slices.Contains(serverLabels[:], other) || isOwn && other != name
			}
			as := name
			for taken(as) {
				as = "exported_" + as
			}
			if value != "" {
				labels = append(labels, wire.SeriesLabel{Name: as, Value: value})
			}
		}
		slices.SortFunc(labels, func(a, b wire.SeriesLabel) int { return strings.Compare(a.Name, b.Name) })
		key := labelText(labels)
		if present[key] {
			continue // the first one counts
		}
		present[key] = true
		ms := int64(0)
		if !v.At.IsZero() {
			ms = v.At.UnixMilli()
		}
		block.Add(labels, []wire.Sample{{Ms: ms, Value: v.Value}})
	}
	var last wire.SampleReader
	if len(before) > 0 && last.Reset(before) == nil {
		for last.Next() {
			if len(last.Samples) == 1 && math.Float64bits(last.Samples[0].Value) != math.Float64bits(staleValue) && !present[labelText(last.Labels)] {
				block.Add(last.Labels, []wire.Sample{{Value: staleValue}})
			}
		}
	}
	return block.Append(nil)
}

// serverLabels are the labels that the server sets.
var serverLabels = [...]string{"check", "node", "namespace"}

// labelText returns a text that identifies a series by its labels.
func labelText(labels []wire.SeriesLabel) string {
	var b strings.Builder
	for _, l := range labels {
		b.WriteString(l.Name + "\x00" + l.Value + "\x00")
	}
	return b.String()
}
