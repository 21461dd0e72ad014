package muster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// assetConn is a connection on which an agent fetches archives. It hides TLS from http.Server, which would look for a
// handler of the ALPN protocol.
type assetConn struct {
	net.Conn
	proof Proof
}

// NetConn returns the connection below TLS, for package admission.
func (c *assetConn) NetConn() net.Conn { return c.Conn.(*tls.Conn).NetConn() }

type assetConnKey struct{}

// assetServer answers requests for archives, each on a goroutine of its own.
func (s *Server) assetServer() *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(s.serveAsset), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: core.FetchTimeout, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, assetConnKey{}, nc)
		},
	}
}

// serveAsset sends an archive that the node's assignment names, whole or from an offset.
func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	outcome, err := s.sendAsset(w, r)
	s.metrics.Archives.WithLabelValues(outcome).Inc()
	if err == nil {
		return
	}
	public := s.archives.Failure(err, r.URL.Path)
	if public.Class == model.Unavailable {
		w.Header().Set("Retry-After", "5")
	}
	http.Error(w, public.Error(), public.Class.HTTP())
}

func (s *Server) sendAsset(w http.ResponseWriter, r *http.Request) (outcome string, err error) {
	text, ok := strings.CutPrefix(r.URL.Path, wire.AssetPath)
	sum, bad := model.ParseAssetSum(text)
	if r.Method != http.MethodGet || !ok || bad != nil || s.cfg.Assets == nil {
		return "unknown", model.Errorf(model.NotFound, "this connection serves archives only: GET %sSHA512", wire.AssetPath)
	}
	conn := r.Context().Value(assetConnKey{}).(*assetConn)
	node, known := s.cfg.Nodes.Lookup(conn.proof.Node)
	if !known || node.Key != conn.proof.Key {
		return "unknown_node", model.Errorf(model.Forbidden, "the server does not know this machine as a node")
	}
	admission.Prove(conn)
	f, done, outcome, err := s.archives.Open(r.Context(), node.ID, sum)
	if err != nil {
		return outcome, err
	}
	defer done()
	w.Header().Set("ETag", `"`+text+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, f)
	return outcome, nil
}
