package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// AssetsPath is where a server says on its admin listener what is wrong with the archives of its
// Assets.
const AssetsPath = "/debug/assets"

// Assets is what it says.
type Assets struct {
	Archives int          `json:"archives"` // that Assets name
	Unread   int          `json:"unread"`   // of them, so many were not read, for want of time
	Wrong    []WrongAsset `json:"wrong"`
}

// WrongAsset is an archive that nobody can be given.
type WrongAsset struct {
	Asset   string `json:"asset"` // NAMESPACE/NAME
	For     string `json:"for"`   // which machines; empty: all
	Trouble string `json:"trouble"`
	Mend    string `json:"mend"`
}

// LookAtAssets is how long a server reads archives for an answer.
const LookAtAssets = 20 * time.Second

// mostAssets is how many of them are findings of their own.
const mostAssets = 20

// assets asks the server which Assets nobody can use.
func assets(ctx context.Context, p Patient) []Finding {
	if p.Admin == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(p.Admin, "/")+AssetsPath, nil)
	if err != nil {
		return nil
	}
	resp, err := (&http.Client{Timeout: LookAtAssets + 10*time.Second}).Do(req)
	if err != nil {
		return nil // whether it answers is said elsewhere
	}
	defer resp.Body.Close()
	var said Assets
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&said) != nil || said.Archives == 0 {
		return nil
	}
	const needed = "its archive, whole, in the server's store: whoever names it gets nothing until then"
	var out []Finding
	for i, w := range said.Wrong {
		if i == mostAssets {
			out = append(out, Finding{Warn, "assets", fmt.Sprintf("%d more archives that cannot be used", len(said.Wrong)-i), needed, "muster asset list"})
			break
		}
		what := "asset " + w.Asset
		if w.For != "" {
			what += " for " + w.For
		}
		out = append(out, Finding{Warn, what, w.Trouble, needed, w.Mend})
	}
	if len(out) == 0 {
		f := Finding{Fine, "assets", fmt.Sprintf("%d archives, all of them whole", said.Archives), "", ""}
		if said.Unread > 0 {
			f.Measured = fmt.Sprintf("%d archives, all of them there; %d were not read: they are many bytes", said.Archives, said.Unread)
		}
		out = append(out, f)
	}
	return out
}
