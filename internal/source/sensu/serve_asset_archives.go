package sensu

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/admission"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// assetPath is the URL path of archives: assetPath + the node's number + / + SHA-512. Agents fetch with the token of their
// request, which is valid for this node and archive as long as the assignment names it and the server runs.
const assetPath = "/assets/"

// setAssets adds the assets that a check and its hooks need to the check request. It returns the reason why an
// asset does not fit the agent's machine.
func (x *session) setAssets(request *sensuwire.CheckRequest, c *model.CheckDefinition) (problem string) {
	if len(c.Assets) == 0 {
		return ""
	}
	x.Mu.Lock()
	facts := x.facts
	x.Mu.Unlock()
	for i := range c.Assets {
		a := &c.Assets[i]
		build := model.SelectBuild(a.Builds, facts)
		switch {
		case build == nil && a.HooksOnly:
			continue
		case build == nil:
			return model.MissingBuildError(a.Name, "this machine", facts).Error()
		}
		sum := build.SHA512
		path := assetPath + strconv.FormatUint(uint64(x.Node.ID), 10) + "/" + sum
		asset := sensuwire.Asset{
			Name: strings.ReplaceAll(a.Name, "/", "_"), Namespace: x.namespace, URL: x.url + path, SHA512: sum,
			Headers: map[string]string{"Authorization": "Bearer " + x.srv.archiveToken(path)},
		}
		request.HookAssets = append(request.HookAssets, asset)
		if !a.HooksOnly {
			request.Assets = append(request.Assets, asset)
		}
	}
	return ""
}

// archiveToken returns the secret token that the URL of an asset archive contains. Other programs cannot guess it.
func (s *Server) archiveToken(path string) string {
	mac := hmac.New(sha256.New, s.archiveKey[:])
	mac.Write([]byte(path))
	return hex.EncodeToString(mac.Sum(nil))
}

// handshakeConn is an agent's connection during the HTTP handshake, with a limit on the handshake's size. If the
// request is for an archive, the library's answer is dropped: sendArchive writes another.
type handshakeConn struct {
	wsconn.Handshake
	*handshakeRequest
}

// Write writes the WebSocket library's answer, unless the request was for an asset archive.
func (c *handshakeConn) Write(p []byte) (int, error) {
	if c.isArchiveRequest() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// isArchiveRequest reports whether the HTTP request asks for an asset archive instead of a WebSocket.
func (o *handshakeRequest) isArchiveRequest() bool { return strings.HasPrefix(o.path, assetPath) }

// serveArchive answers an agent's HTTP request for an asset archive, and closes the connection.
func (s *Server) serveArchive(nc net.Conn, o *handshakeRequest) {
	outcome, err := s.sendArchive(nc, o)
	s.metrics.Archives.WithLabelValues(outcome).Inc()
	if err != nil {
		public := s.cfg.Archives.PublicError(err, o.path)
		refuseHTTP(nc, public.Class.HTTP(), public)
	}
	wsconn.CloseGracefully(nc, admission.LingerTime)
}

// refuseHTTP answers an HTTP request with a status and an error's text.
func refuseHTTP(nc net.Conn, status int, err error) {
	text := err.Error() + "\n"
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(text), text)
}

// sendArchive sends the requested asset archive or an error, and returns the outcome for metrics.
func (s *Server) sendArchive(nc net.Conn, o *handshakeRequest) (outcome string, err error) {
	number, text, _ := strings.Cut(strings.TrimPrefix(o.path, assetPath), "/")
	node, badNode := strconv.ParseUint(number, 10, 32)
	sum, badSum := model.ParseAssetSum(text)
	if badNode != nil || badSum != nil {
		return "unknown", model.Errorf(model.NotFound, "unknown path: expected %sNODE/SHA512", assetPath)
	}
	if !hmac.Equal([]byte(o.header.Get("Authorization")), []byte("Bearer "+s.archiveToken(o.path))) {
		return "unknown_node", model.Errorf(model.Forbidden, "the URL lacks the valid token for this archive, which the check request contains")
	}
	admission.MarkAuthenticated(nc)
	_ = nc.SetDeadline(time.Now().Add(core.FetchTimeout))
	f, done, outcome, err := s.cfg.Archives.Open(s.life.Base, model.NodeID(node), sum)
	if err != nil {
		return outcome, err
	}
	defer done()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "missing", err
	}
	if _, err := fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", size); err == nil {
		_, _ = io.Copy(nc, f) // an agent whose transfer breaks asks again
	}
	return outcome, nil
}
