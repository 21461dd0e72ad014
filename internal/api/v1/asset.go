package v1

// Archive is the state of an archive of an Asset on the server.
type Archive struct {
	SHA512   string `json:"sha512"`
	Stored   bool   `json:"stored" doc:"The server has it whole."`
	Bytes    int64  `json:"bytes,omitempty" doc:"How long it is."`
	Named    bool   `json:"named,omitempty" doc:"An Asset names it; others are removed after an hour."`
	Fetching bool   `json:"fetching,omitempty" doc:"The server fetches it from its url, or is about to."`
	Trouble  string `json:"trouble,omitempty" doc:"Why it could not be fetched."`
}
