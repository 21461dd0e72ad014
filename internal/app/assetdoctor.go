package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/asset"
)

// serveAssets answers muster doctor: which archives of Assets are not in the store, and which of
// those there are no good.
func (s *Server) serveAssets(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), doctor.LookAtAssets)
	defer cancel()
	said, err := s.wrongAssets(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // whoever went away is told nothing
}

// wrongAssets reads the archives, one after the other, as long as ctx lasts.
func (s *Server) wrongAssets(ctx context.Context) (out doctor.Assets, err error) {
	all, err := s.intent.List(context.WithoutCancel(ctx), intent.ListQuery{Kind: "Asset"}, nil)
	if err != nil {
		return out, err
	}
	looked := map[asset.Sum]string{} // what is wrong; empty: nothing
	for i := range all {
		at := &all[i].Metadata
		for _, b := range all[i].Spec.(*model.AssetSpec).Builds {
			sum, err := model.ParseAssetSum(b.SHA512)
			if err != nil {
				continue // nobody could apply it
			}
			trouble, known := looked[sum]
			if !known {
				if trouble = s.archives.wrong(sum, b.URL != "", ctx.Err() == nil); trouble == unread {
					out.Unread++
					trouble = ""
				}
				looked[sum] = trouble
			}
			if trouble != "" {
				out.Wrong = append(out.Wrong, doctor.WrongAsset{Asset: at.Namespace + "/" + at.Name, For: machinesOf(&b), Trouble: trouble,
					Mend: fmt.Sprintf("muster asset add %s FILE -n %s", at.Name, at.Namespace)})
			}
		}
	}
	out.Archives = len(looked)
	return out, nil
}

// unread is what is not known of an archive that was not read.
const unread = "not read"

// wrong is why an archive cannot be given to anybody; empty: it can, or is being fetched. fetched: there is an address to
// fetch it from.
func (a *archives) wrong(sum asset.Sum, fetched, read bool) string {
	if _, here := a.store.Size(sum); here {
		if !read {
			return unread
		}
		if err := a.store.Check(sum); err != nil {
			return firstLine(err)
		}
		return ""
	}
	switch state := a.State(sum); {
	case state.Trouble != "" && fetched:
		return "it cannot be fetched: " + state.Trouble
	case state.Trouble != "":
		return state.Trouble
	case fetched:
		return ""
	}
	return "nobody has uploaded it"
}

// firstLine is an error without its hint.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// machinesOf says which machines a build is for; empty: all.
func machinesOf(b *model.AssetBuild) string {
	var words []string
	for _, word := range []string{b.OS, b.Arch, b.Distribution, b.DistributionVersion} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}
