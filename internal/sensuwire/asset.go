package sensuwire

import (
	"maps"
	"slices"
)

// Asset is an archive that a check_request names: the agent fetches, unpacks and keeps it by
// its sum.
type Asset struct {
	Name, Namespace string
	URL             string
	SHA512          string
	Headers         map[string]string // of the fetch; agents cut values at commas
}

// appendProto is an Asset.
func (a *Asset) appendProto(b []byte) []byte {
	b = appendText(appendText(b, 2, a.URL), 3, a.SHA512)
	b = appendMessage(b, 8, func(b []byte) []byte { return appendText(appendText(b, 1, a.Name), 2, a.Namespace) })
	for _, k := range slices.Sorted(maps.Keys(a.Headers)) {
		b = appendMessage(b, 9, func(b []byte) []byte { return appendText(appendText(b, 1, k), 2, a.Headers[k]) })
	}
	return b
}

// appendHookAssets gives every hook the check's assets: a map of AssetLists, by the hook's name.
func (a *Ask) appendHookAssets(b []byte) []byte {
	if len(a.Assets) == 0 {
		return b
	}
	for i := range a.Hooks {
		b = appendMessage(b, 5, func(b []byte) []byte {
			return appendMessage(appendText(b, 1, a.Hooks[i].Name), 2, func(b []byte) []byte {
				for k := range a.Assets {
					b = appendMessage(b, 1, a.Assets[k].appendProto)
				}
				return b
			})
		})
	}
	return b
}

type jsonAsset struct {
	Metadata jsonMeta          `json:"metadata"`
	URL      string            `json:"url"`
	SHA512   string            `json:"sha512"`
	Headers  map[string]string `json:"headers"`
}

func (a *Ask) appendAssetsJSON(dst []byte) []byte {
	if len(a.Assets) == 0 {
		return dst
	}
	list := make([]jsonAsset, len(a.Assets))
	for i := range a.Assets {
		x := &a.Assets[i]
		list[i] = jsonAsset{jsonMeta{Name: x.Name, Namespace: x.Namespace}, x.URL, x.SHA512, x.Headers}
	}
	type assets struct {
		Assets []jsonAsset `json:"assets"`
	}
	dst = appendJSON(append(dst, `,"assets":`...), list)
	if len(a.Hooks) == 0 {
		return dst
	}
	hooks := map[string]assets{}
	for i := range a.Hooks {
		hooks[a.Hooks[i].Name] = assets{list}
	}
	return appendJSON(append(dst, `,"hook_assets":`...), hooks)
}
