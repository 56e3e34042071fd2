// Clusters by name or path.
//
//   Result<Cluster> cluster = FindCluster("h800");  // One of ListClusters(), in the binary.
//   Result<Cluster> mine = FindCluster("my_cluster.textproto");  // May say: base: "h800"
#pragma once

#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Names of hw_specs/*.textproto, in alphabetical order.
std::vector<std::string> ListClusters();

// A validated cluster: one of hw_specs by its name, else the file at that path. An unknown name is
// an Error with the closest names; a bad file names line, column and field.
Result<Cluster> FindCluster(const std::string& name_or_path);

// The same before validation, for a caller that changes fields (--set) first. With what its base
// says (cluster.proto), and without `base` itself: a base that is unknown, or builds on the file
// again, is an Error with file and line. Adds to `files` those that are read, which none may be
// that a verb writes.
Result<ParsedText<Cluster>> ReadCluster(const std::string& name_or_path,
                                        std::vector<std::string>* files = nullptr);

}  // namespace twinstep
