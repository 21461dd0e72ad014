package sensu

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// assetPath is where archives are for Sensu's agents: assetPath + the node's number + / + SHA-512.
// They fetch by themselves, with a word that the request gave them and that is good for this
// node and archive, as long as the node's assignment names it and the server runs.
const assetPath = "/assets/"

// fetchWithin is how long one archive may take.
const fetchWithin = 15 * time.Minute

// assetsOf are a check's assets as its request has them, or why there is one missing.
func (x *session) assetsOf(c *model.CheckChunk) (list []sensuwire.Asset, problem string) {
	if len(c.Assets) == 0 {
		return nil, ""
	}
	x.Mu.Lock()
	facts := x.facts
	x.Mu.Unlock()
	for i := range c.Assets {
		a := &c.Assets[i]
		build := model.SelectBuild(a.Builds, facts)
		if build == nil {
			return nil, model.MissingBuildError(a.Name, "this machine", facts).Error()
		}
		sum := build.SHA512
		path := assetPath + strconv.FormatUint(uint64(x.node.ID), 10) + "/" + sum
		list = append(list, sensuwire.Asset{
			Name: strings.ReplaceAll(a.Name, "/", "_"), Namespace: x.namespace, URL: x.reached + path, SHA512: sum,
			Headers: map[string]string{"Authorization": "Bearer " + x.srv.word(path)},
		})
	}
	return list, ""
}

// word proves that the server named a path to somebody.
func (s *Server) word(path string) string {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(path))
	return hex.EncodeToString(mac.Sum(nil))
}

// asker is a connection that is read for a handshake. What is answered to who wants an archive
// instead is ours to write.
type asker struct {
	wsconn.Handshake
	*offer
}

func (a *asker) Write(p []byte) (int, error) {
	if a.fetches() {
		return len(p), nil
	}
	return a.Conn.Write(p)
}

func (o *offer) fetches() bool { return strings.HasPrefix(o.path, assetPath) }

// fetch answers who wants an archive, and closes.
func (s *Server) fetch(nc net.Conn, o *offer) {
	outcome, err := s.archive(nc, o)
	s.metrics.assets.WithLabelValues(outcome).Inc()
	if err != nil {
		refuse(nc, model.ClassOf(err).HTTP(), err)
	}
	wsconn.Part(nc, partWithin)
}

// refuse answers who is sent away, with the reason.
func refuse(nc net.Conn, status int, why error) {
	text := why.Error() + "\n"
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, http.StatusText(status), len(text), text)
}

func (s *Server) archive(nc net.Conn, o *offer) (outcome string, err error) {
	number, text, _ := strings.Cut(strings.TrimPrefix(o.path, assetPath), "/")
	node, bad := strconv.ParseUint(number, 10, 32)
	sum, bad2 := model.ParseAssetSum(text)
	if bad != nil || bad2 != nil {
		return "unknown", model.Errorf(model.NotFound, "there is nothing here but archives")
	}
	if !hmac.Equal([]byte(o.said.Get("Authorization")), []byte("Bearer "+s.word(o.path))) {
		return "unknown_node", model.Errorf(model.Forbidden, "only who was asked to run a check with this archive may have it")
	}
	muster.Prove(nc)
	_ = nc.SetDeadline(time.Now().Add(fetchWithin))
	f, done, outcome, err := s.cfg.Agents.Archive(s.base, model.NodeID(node), sum)
	if err != nil {
		if said := (*model.Error)(nil); !errors.As(err, &said) {
			s.cfg.Log.Error("archive of an asset", "path", o.path, "err", err)
			err = model.Errorf(model.Internal, "the server cannot read the archive; its log says why")
		}
		return outcome, err
	}
	defer done()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		s.cfg.Log.Error("archive of an asset", "path", o.path, "err", err)
		return "missing", model.Errorf(model.Internal, "the server cannot read the archive; its log says why")
	}
	if _, err := fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", size); err == nil {
		_, _ = io.Copy(nc, f) // who went away asks again
	}
	return outcome, nil
}
