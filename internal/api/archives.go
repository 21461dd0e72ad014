package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/access"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// Archives keeps the archives of Assets.
type Archives interface {
	// Put stores what r gives if that is its SHA-512; it is durable then.
	Put(sum [64]byte, r io.Reader) (size int64, err error)
	State(sum [64]byte) v1.Archive
}

// uploadWithin is how long an archive may take to arrive.
const uploadWithin = 15 * time.Minute

func (s *server) archiveRoutes() {
	if s.Archives == nil {
		return
	}
	handle(s, withErrors(operation("getArchive", http.MethodGet, "/api/v1/archives/{sha512}", "resources", "How an archive of an Asset is on the server")), access.On(access.Read, "Asset"), (*server).getArchive)
	// The body is streamed to the disk, which huma does not do: it is only described there.
	op := operation("putArchive", http.MethodPut, "/api/v1/archives/{sha512}", "resources", "Upload an archive of an Asset; an Asset has to name it within an hour")
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	op.Parameters = []*huma.Param{{Name: "sha512", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	op.Responses = map[string]*huma.Response{"204": {Description: "It is stored and durable."}}
	s.handleRaw(op, access.On(access.Change, "Asset"), s.putArchive)
}

type getArchiveInput struct {
	SHA512 string `path:"sha512" maxLength:"128"`
}

func (s *server) getArchive(_ context.Context, in *getArchiveInput) (*body[v1.Archive], error) {
	sum, err := model.ParseAssetSum(in.SHA512)
	if err != nil {
		return nil, err
	}
	return &body[v1.Archive]{s.Archives.State(sum)}, nil
}

func (s *server) putArchive(w http.ResponseWriter, r *http.Request) {
	if err := s.upload(w, r); err != nil {
		w.Header().Set("Connection", "close") // else the answer waits for the rest of the archive
		if p, ok := s.errorOf("putArchive", err).(*v1.Error); ok {
			writeProblem(w, p)
		}
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) upload(w http.ResponseWriter, r *http.Request) error {
	sum, err := model.ParseAssetSum(r.PathValue("sha512"))
	if err != nil {
		return err
	}
	if s.uploads.Enter(r.Context()) != nil {
		return full()
	}
	defer s.uploads.Leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(uploadWithin)) // the network's clock is the real one
	_ = control.SetWriteDeadline(time.Now().Add(uploadWithin + time.Minute))
	size, err := s.Archives.Put(sum, r.Body)
	if err != nil {
		return err
	}
	s.Logger.Info("archive of an asset uploaded", "user", callerOf(r.Context()).User, "from", callerOf(r.Context()).whence, "sha512", r.PathValue("sha512")[:12], "bytes", size)
	return nil
}
