// A plugin of clang-tidy: its checks see the declarations of our own files alone. Without it every
// check walks all that a source includes, which is more than nine tenths of the work, and finds
// nothing that it would report. Loaded by scripts/lint/lint.py; the interface is clang 14's
// (clang/Frontend/FrontendPluginRegistry.h).
#include <memory>
#include <string>
#include <vector>

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclGroup.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendPluginRegistry.h>

namespace {

// Runs before clang-tidy's own consumer. What comes from precompiled headers is never handed to it.
class OwnSources : public clang::ASTConsumer {
 public:
  bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
    for (clang::Decl* declaration : group) {
      const clang::SourceManager& sources = declaration->getASTContext().getSourceManager();
      if (!sources.isInSystemHeader(sources.getExpansionLoc(declaration->getLocation()))) {
        own_.push_back(declaration);
      }
    }
    return true;
  }

  void HandleTranslationUnit(clang::ASTContext& context) override {
    context.setTraversalScope(own_);
  }

 private:
  std::vector<clang::Decl*> own_;
};

class OwnSourcesAction : public clang::PluginASTAction {
 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& /*compiler*/,
                                                        llvm::StringRef /*file*/) override {
    return std::make_unique<OwnSources>();
  }
  bool ParseArgs(const clang::CompilerInstance& /*compiler*/,
                 const std::vector<std::string>& /*arguments*/) override {
    return true;
  }
  ActionType getActionType() override { return AddBeforeMainAction; }
};

const clang::FrontendPluginRegistry::Add<OwnSourcesAction> kOwnSources(
    "own-sources", "checks see our files alone");

}  // namespace
