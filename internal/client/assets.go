package client

import (
	"context"
	"io"
	"net/http"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
)

// Archive says how an archive of an Asset is on the server.
func (c *Client) Archive(ctx context.Context, sha512 string) (v1.Archive, error) {
	return get[v1.Archive](ctx, c, "/api/v1/archives/"+sha512, nil)
}

// PutArchive uploads one; r is read to its end.
func (c *Client) PutArchive(ctx context.Context, sha512 string, r io.Reader) error {
	answer, err := c.send(ctx, http.MethodPut, "/api/v1/archives/"+sha512, nil, nil, r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
