package muster

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/wire"
)

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// fetchAs asks for an archive with a certificate.
func (h *house) fetchAs(id *pki.Identity, path, from string) (status int, body string) {
	h.t.Helper()
	config := link.TLSFor(wire.AssetProtocol, id, nil)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return link.DialTLS(ctx, (&net.Dialer{}).DialContext, config, h.tls)
	}}}
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, "https://"+h.tls+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if from != "" {
		request.Header.Set("Range", "bytes="+from+"-")
	}
	answer, err := client.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer.StatusCode, string(data)
}

// An agent gets the archives that its assignment names, from any byte on, and no others; a
// machine that is no node (any more) gets none.
func TestOnlyWhatTheAssignmentNames(t *testing.T) {
	here, missing, other := [64]byte{1}, [64]byte{2}, [64]byte{3}
	h := newHouseWith(t, func(c *Config) {
		c.Assets = func(sum [64]byte) (io.ReadSeekCloser, error) {
			if sum == missing {
				return nil, model.Errorf(model.NotFound, "nobody has uploaded it")
			}
			return nopCloser{bytes.NewReader([]byte("an archive"))}, nil
		}
	}, nil)
	defer h.stop()
	id, stranger := h.join("web1"), h.join("web2")
	node, _ := h.nodes.Lookup(id.Node)
	text := func(sum [64]byte) string { return hex.EncodeToString(sum[:]) }
	h.plan.mu.Lock()
	named := *h.plan.by[node.ID].Chunks[0].AsCheck()
	named.Assets = []model.ChunkAsset{{Name: "x", Builds: []model.AssetBuild{{SHA512: text(here), OS: "plan9"}, {SHA512: text(missing)}}}}
	h.plan.by[node.ID].Chunks = []*model.Chunk{named.Seal()}
	h.plan.mu.Unlock()
	for _, x := range []struct {
		what       string
		as         *pki.Identity
		path, from string
		status     int
		says       string
	}{
		{"named", id, wire.AssetPath + text(here), "", http.StatusOK, "an archive"},
		{"the rest of it", id, wire.AssetPath + text(here), "3", http.StatusPartialContent, "archive"},
		{"beyond its end", id, wire.AssetPath + text(here), "10", http.StatusRequestedRangeNotSatisfiable, ""},
		{"not here", id, wire.AssetPath + text(missing), "", http.StatusNotFound, "nobody has uploaded it"},
		{"not named", id, wire.AssetPath + text(other), "", http.StatusForbidden, ""},
		{"another node's", stranger, wire.AssetPath + text(here), "", http.StatusForbidden, ""},
		{"no sum", id, wire.AssetPath + "../../etc/passwd", "", http.StatusNotFound, ""},
		{"something else", id, "/api/v1/nodes", "", http.StatusNotFound, ""},
	} {
		if status, body := h.fetchAs(x.as, x.path, x.from); status != x.status || !strings.Contains(body, x.says) {
			t.Errorf("%s: %d %q", x.what, status, body)
		}
	}
	info, _ := h.nodes.Lookup(id.Node)
	info.Key = "another"
	h.nodes.set(id.Node, info)
	if status, body := h.fetchAs(id, wire.AssetPath+text(here), ""); status != http.StatusForbidden {
		t.Errorf("a machine that another has replaced: %d %q", status, body)
	}
}
