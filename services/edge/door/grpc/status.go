package grpc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// status is an error in the form of this door.
func status(err error) error {
	if err == nil {
		return nil
	}
	if _, done := rpcstatus.FromError(err); done && !isFault(err) {
		return err
	}
	if errors.Is(err, context.Canceled) && !isFault(err) {
		err = fault.New(fault.Cancelled, "cancelled")
	}
	f := fault.From(err)
	code := forms.ForReason(f.Reason).GRPC
	info := &errdetails.ErrorInfo{Reason: string(f.Reason), Domain: "busbar", Metadata: facts(f.Data)}
	info.Metadata["executed"] = string(f.Executed)
	if next := forms.Next(f, forms.GRPC); next != "" {
		info.Metadata["next"] = next
	}
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(info)}
	if f.RetryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.RetryAfter.Round(time.Millisecond))}))
	}
	s, failed := rpcstatus.New(code, strings.ToValidUTF8(f.Message, "\uFFFD")).WithDetails(details...)
	if failed != nil {
		return rpcstatus.Error(code, f.Message)
	}
	return s.Err()
}

// maxFacts bounds the further facts of an error, in bytes: they travel in a header, and
// proxies accept only a few KiB of headers.
const maxFacts = 2 << 10

// facts are the members of an error's data as metadata: strings unchanged, other values
// as JSON. Members that are too large are left out.
func facts(data []byte) map[string]string {
	out := map[string]string{}
	var members map[string]jsontext.Value
	if json.Unmarshal(data, &members) != nil {
		return out
	}
	left := maxFacts
	for _, name := range slices.Sorted(maps.Keys(members)) {
		text := string(members[name])
		if members[name].Kind() == '"' {
			_ = json.Unmarshal(members[name], &text)
		}
		if size := len(name) + len(text); size <= left {
			out[name] = text
			left -= size
		}
	}
	return out
}

func isFault(err error) bool {
	var f *fault.Error
	return errors.As(err, &f)
}
