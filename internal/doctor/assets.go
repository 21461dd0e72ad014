package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// AssetsPath is the page of the admin listener with the faults of Asset archives.
const AssetsPath = "/debug/assets"

// Assets is the content of that page.
type Assets struct {
	Archives int          `json:"archives"` // that Assets name
	Unread   int          `json:"unread"`   // archives among them that the time did not allow to read
	Wrong    []WrongAsset `json:"wrong"`
}

// WrongAsset is an archive that no agent can get.
type WrongAsset struct {
	Asset   string `json:"asset"` // NAMESPACE/NAME
	For     string `json:"for"`   // the machines; empty: all
	Trouble string `json:"trouble"`
	Mend    string `json:"mend"`
}

// LookAtAssets is the time in which a server reads archives for one answer.
const LookAtAssets = 20 * time.Second

// shownAssets is how many wrong archives are findings of their own.
const shownAssets = 20

// assets reports archives that no agent can get.
func assets(ctx context.Context, p Patient) (out []Finding) {
	page := adminPage(ctx, p, AssetsPath, LookAtAssets+10*time.Second)
	if page == nil {
		return nil
	}
	defer page.Close()
	var a Assets
	if json.NewDecoder(io.LimitReader(page, 16<<20)).Decode(&a) != nil || a.Archives == 0 {
		return nil
	}
	const needed = "the whole archive in the server's store: checks and handlers that name it wait for it"
	for i, w := range a.Wrong {
		if i == shownAssets {
			return append(out, Finding{Warn, "assets", fmt.Sprintf("%d more archives that cannot be used", len(a.Wrong)-i), needed, "muster asset list"})
		}
		name := "asset " + w.Asset
		if w.For != "" {
			name += " for " + w.For
		}
		out = append(out, Finding{Warn, name, w.Trouble, needed, w.Mend})
	}
	switch {
	case len(out) > 0:
		return out
	case a.Unread > 0:
		return []Finding{{Fine, "assets", fmt.Sprintf("%d archives, all of them present; %d were not read, for lack of time", a.Archives, a.Unread), "", ""}}
	}
	return []Finding{{Fine, "assets", fmt.Sprintf("%d archives, all of them whole", a.Archives), "", ""}}
}
