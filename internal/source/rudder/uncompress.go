package rudder

import (
	"bytes"
	"compress/gzip"
	"io"

	"github.com/muster-fleet/muster/internal/model"
)

// uncompress returns the content of a file, which may be compressed with gzip. The content has a size limit in bytes.
func uncompress(data []byte, most int) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, model.Errorf(model.Invalid, "cannot uncompress the file: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if len(plain) > most {
		return nil, model.Errorf(model.TooLarge, "the file is larger than %s uncompressed", model.Size(most))
	}
	if err != nil {
		return nil, model.Errorf(model.Invalid, "cannot uncompress the file: %w", err)
	}
	return plain, nil
}
