#include "launcher/connection/slurm_conf.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace ddprun {
namespace slurm_conf_test {

TEST(MungeSocketInTest, IsTheOneOfAuthInfo) {
  EXPECT_EQ(MungeSocketIn("ClusterName=a\nAuthType=auth/munge\nAuthInfo=socket=/run/m.2,ttl=60\n"),
            "/run/m.2");
  EXPECT_EQ(MungeSocketIn("AuthInfo=cred_expire=5,socket=/run/m.2"), "/run/m.2");
  EXPECT_EQ(MungeSocketIn("  authinfo = \"Socket=/run/m.2\"  # of our own\r\n"), "/run/m.2");
  EXPECT_EQ(MungeSocketIn("AuthInfo=/run/old"), "/run/old");
}

TEST(MungeSocketInTest, IsMungesOwnWhereNoneIsNamed) {
  EXPECT_EQ(MungeSocketIn(""), "");
  EXPECT_EQ(MungeSocketIn("#AuthInfo=socket=/run/m.2\nAuthAltInfo=jwt_key=/k\nAuthInfo=ttl=60\n"),
            "");
  EXPECT_EQ(MungeSocketIn("AuthInfo"), "");
}

TEST(MungeSocketOfSlurmTest, IsThatOfTheFileThatSlurmNames) {
  const TempDir folder;
  std::ofstream(folder / "slurm.conf") << "AuthInfo=socket=/run/m.2\n";
  setenv("SLURM_CONF", (folder / "slurm.conf").c_str(), 1);
  EXPECT_EQ(MungeSocketOfSlurm(), "/run/m.2");
  setenv("SLURM_CONF", (folder / "none").c_str(), 1);
  EXPECT_EQ(MungeSocketOfSlurm(), "");
  unsetenv("SLURM_CONF");
}

}  // namespace slurm_conf_test
}  // namespace ddprun
