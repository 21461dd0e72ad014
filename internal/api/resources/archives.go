package resources

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// uploadTimeout is the time that an archive may take to arrive.
const uploadTimeout = 15 * time.Minute

func registerArchives(at subject) {
	op.Handle(at, op.Get("getArchive", "/api/v1/archives/{sha512}", "resources", "How an archive of an Asset is on the server"), access.On(access.Read, "Asset"), (*request).getArchive)
	// The body is streamed to the disk, which huma cannot do. The OpenAPI document describes it all
	// the same.
	put := op.Put("putArchive", "/api/v1/archives/{sha512}", "resources", "Upload an archive of an Asset; an Asset has to name it within an hour")
	put.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	put.Parameters = []*huma.Param{{Name: "sha512", In: "path", Required: true, Schema: &huma.Schema{Type: "string"}}}
	put.Responses = map[string]*huma.Response{"204": {Description: "It is stored and durable."}}
	op.HandleRaw(at, put, access.On(access.Change, "Asset"), (*request).putArchive)
}

type getArchiveInput struct {
	SHA512 string `path:"sha512" maxLength:"128"`
}

func (s *request) getArchive(_ context.Context, in *getArchiveInput) (*op.Body[v1.Archive], error) {
	sum, err := model.ParseAssetSum(in.SHA512)
	if err != nil {
		return nil, err
	}
	return op.Answer(s.Archives.State(sum)), nil
}

func (s *request) putArchive(w http.ResponseWriter, r *http.Request) error {
	sum, err := model.ParseAssetSum(r.PathValue("sha512"))
	if err != nil {
		return err
	}
	if s.uploads.Enter(r.Context()) != nil {
		return op.Full()
	}
	defer s.uploads.Leave()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(uploadTimeout)) // the network's clock is the real one
	_ = control.SetWriteDeadline(time.Now().Add(uploadTimeout + time.Minute))
	size, err := s.Archives.Put(sum, r.Body)
	if err != nil {
		return err
	}
	c := access.CallerOf(r.Context())
	s.Logger.Info("archive of an asset uploaded", "user", c.User, "from", c.Address, "sha512", r.PathValue("sha512")[:12], "bytes", size)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
