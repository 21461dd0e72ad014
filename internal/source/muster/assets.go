package muster

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// fetcher is a connection on which an agent fetches archives. It hides that it is TLS from
// http.Server, which would look for a protocol of that name.
type fetcher struct {
	net.Conn
	proof Proof
}

// NetConn is for guestOf.
func (f *fetcher) NetConn() net.Conn { return f.Conn.(*tls.Conn).NetConn() }

type fetcherKey struct{}

// fetchWithin is how long one archive may take: what is missing then is asked for again,
// from there on.
const fetchWithin = 15 * time.Minute

// assetServer answers the requests of fetchers. It has a goroutine for each of them.
func (s *Server) assetServer() *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(s.serveAsset), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: fetchWithin, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, fetcherKey{}, nc)
		},
	}
}

// serveAsset gives an agent an archive that its assignment names, whole or from where it
// was cut off.
func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	outcome, err := s.asset(w, r)
	s.metrics.assets.WithLabelValues(outcome).Inc()
	if err == nil {
		return
	}
	said := &model.Error{Class: model.Internal, Message: "the server cannot read the archive; its log says why"}
	if !errors.As(err, &said) {
		s.cfg.Log.Error("archive of an asset", "path", r.URL.Path, "err", err)
	}
	if said.Class == model.Unavailable {
		w.Header().Set("Retry-After", "5")
	}
	http.Error(w, said.Error(), said.Class.HTTP())
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) (outcome string, err error) {
	text, ok := strings.CutPrefix(r.URL.Path, wire.AssetPath)
	sum, bad := model.ParseAssetSum(text)
	if r.Method != http.MethodGet || !ok || bad != nil || s.cfg.Assets == nil {
		return "unknown", model.Errorf(model.NotFound, "there is nothing here but archives: GET %sSHA512", wire.AssetPath)
	}
	from := r.Context().Value(fetcherKey{}).(*fetcher)
	node, known := s.cfg.Nodes.Lookup(from.proof.Node)
	if !known || node.Key != from.proof.Key {
		return "unknown_node", model.Errorf(model.Forbidden, "the server does not know this machine as a node")
	}
	if g := guestOf(from); g != nil {
		g.prove()
	}
	f, done, outcome, err := s.Archive(r.Context(), node.ID, sum)
	if err != nil {
		return outcome, err
	}
	defer done()
	w.Header().Set("ETag", `"`+text+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
	return outcome, nil
}

// Archive opens an archive for a node whose assignment names it, when it is the node's turn;
// done closes it. The outcome is for the metrics.
func (s *Server) Archive(ctx context.Context, node model.NodeID, sum [64]byte) (f io.ReadSeeker, done func(), outcome string, err error) {
	if s.cfg.Assets == nil {
		return nil, nil, "unknown", model.Errorf(model.NotFound, "there are no archives here")
	}
	if !s.assigned(node, hex.EncodeToString(sum[:])) {
		return nil, nil, "not_assigned", model.Errorf(model.Forbidden, "no check of this node names the archive (any more)")
	}
	if s.fetches.Enter(ctx) != nil {
		return nil, nil, "busy", model.Errorf(model.Unavailable, "as many agents fetch archives as may; this one has to wait for its turn")
	}
	file, err := s.cfg.Assets(sum)
	if err != nil {
		s.fetches.Leave()
		return nil, nil, "missing", err
	}
	return file, func() { _ = file.Close(); s.fetches.Leave() }, "served", nil
}

// assigned says whether a check of the node names the archive.
func (s *Server) assigned(node model.NodeID, sum string) bool {
	a := s.cfg.Assignments.For(node)
	if a == nil {
		return false
	}
	for _, chunk := range a.Chunks {
		c := chunk.AsCheck()
		for i := 0; c != nil && i < len(c.Assets); i++ {
			for k := range c.Assets[i].Builds {
				if c.Assets[i].Builds[k].SHA512 == sum {
					return true
				}
			}
		}
	}
	return false
}
